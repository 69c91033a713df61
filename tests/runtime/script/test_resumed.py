"""A script that saves a checkpoint and resumes from it, with a recipe or without: the same training, in every order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from autoaccel.records.settings import Settings
from tests.runtime.script.test_running import run

RECIPES: dict[str, Settings] = {
    "plain": {},
    "fused": {"layout.channels_last": True, "optimizer.fused": True},
    "foreach": {"layout.channels_last": True, "optimizer.foreach": "on"},
}

TRAIN = """\
import json, sys
import torch
from torch import nn

torch.set_num_threads(1)
KINDS = {
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01, amsgrad=True),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9, nesterov=True),
    "Adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.02),
    "NAdam": lambda parameters: torch.optim.NAdam(parameters, lr=0.01),
    "RMSprop": lambda parameters: torch.optim.RMSprop(parameters, lr=0.01, momentum=0.5),
}

ORDERS = "model first", "optimizer first", "after a step", "in mid-run", "anew", "other weights", "other format"


def build(kind):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.GELU(), nn.Conv2d(8, 6, 3), nn.GELU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 4),
    )
    return model, KINDS[kind](model.parameters())


def steps(model, optimizer, numbers, gradients=None):
    found = []
    for number in numbers:
        generator = torch.Generator().manual_seed(number)
        images = torch.randn(8, 3, 9, 9, generator=generator)
        labels = torch.randint(0, 4, (8,), generator=generator)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        if gradients is not None and not gradients:
            gradients += [p.grad.flatten().tolist() for p in model.parameters()]
        optimizer.step()
        found.append(loss.item())
    return found


def resume(kind, order, path, gradients):
    saved = torch.load(path, weights_only=True)
    model, optimizer = build(kind)
    if order == "optimizer first":
        optimizer.load_state_dict(saved["optimizer"])
        model.load_state_dict(saved["model"])
        return steps(model, optimizer, range(4, 8), gradients)
    if order == "after a step":
        steps(model, optimizer, [50])
    if order in ("in mid-run", "anew"):
        steps(model, optimizer, range(50, 53))
    if order == "anew":
        model, optimizer = build(kind)
    if order == "other weights":  # whose memory format is another than that of what is loaded, or was trained
        steps(model, optimizer, [50])
        model.to(memory_format=torch.channels_last)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    if order == "other format":
        model.to(memory_format=torch.channels_last)
    return steps(model, optimizer, range(4, 8), gradients)


def main(does, folder, kinds):
    found = {}
    for kind in kinds.split(","):
        path = folder + "/" + kind + ".pt"
        if does == "save":
            model, optimizer = build(kind)
            losses = steps(model, optimizer, range(4))
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
            gradients = []
            found[kind] = losses + steps(model, optimizer, range(4, 8), gradients), gradients
            continue
        for order in ORDERS:
            gradients = []
            found[kind + ", " + order] = resume(kind, order, path, gradients), gradients
    print(json.dumps(found))


main(*sys.argv[2:])
"""

ALL = ("Adam", "AdamW", "SGD", "Adagrad", "NAdam", "RMSprop")


def train(folder: Path, settings: Settings, does: str, saved: Path, kinds: str) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    done = run(folder, settings, TRAIN, arguments=(does, str(saved), kinds))
    assert done.returncode == 0, done.stderr
    assert "is no valid" not in done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check_resumed(recipe: str, kinds: str, folder: Path) -> None:
    plain, other = folder / "plain", folder / "other"
    expected = train(plain, {}, "save", plain, kinds)
    found = train(other, RECIPES[recipe], "save", other, kinds)
    for kind, (losses, gradients) in expected.items():
        check_same(found[kind], losses, gradients, kind)
        check_checkpoint(other / f"{kind}.pt", plain / f"{kind}.pt")
    for settings, saved in ((RECIPES[recipe], other), (RECIPES[recipe], plain), ({}, other)):
        for name, resumed in train(other, settings, "resume", saved, kinds).items():
            losses, gradients = expected[name.partition(",")[0]]
            check_same(resumed, losses[4:], gradients, f"{name}, {settings}, {saved.name}")


def check_same(found: tuple[list[float], Any], losses: list[float], gradients: list[list[float]], name: str) -> None:
    assert found[0] == pytest.approx(losses, rel=2e-4), name
    for one, other in zip(found[1], gradients, strict=True):
        torch.testing.assert_close(
            torch.tensor(one), torch.tensor(other), rtol=1e-3, atol=2e-5, msg=lambda text: f"{name}: {text}"
        )


def check_checkpoint(path: Path, plain: Path) -> None:
    """What is saved says nothing of a recipe, and its tensors lie as they would."""
    found, expected = (torch.load(one, weights_only=True) for one in (path, plain))
    assert found["optimizer"]["param_groups"] == expected["optimizer"]["param_groups"]
    assert described(found) == described(expected)


def described(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: described(one) for key, one in value.items()}
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), value.stride(), value.device.type
    return type(value)


@pytest.mark.long
def test_a_script_resumes_with_a_recipe_or_without_in_any_order(tmp_path: Path) -> None:
    """A checkpoint said `fused`, so that plain Python trained on with kernels that take strides for granted."""
    check_resumed("fused", "AdamW,SGD", tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("recipe", ["fused", "foreach"])
@pytest.mark.parametrize("kind", ALL)
def test_every_optimizer_resumes(kind: str, recipe: str, tmp_path: Path) -> None:
    check_resumed(recipe, kind, tmp_path)
