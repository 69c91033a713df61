"""Settings brought to bear: defaults change nothing, what is applied can be seen."""

from __future__ import annotations

import copy
import math
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, TensorDataset

from autoaccel.errors import BadRequestError
from autoaccel.records.settings import Settings
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.data import last_step, train_loader
from autoaccel.runtime.datasets import look_at_samples
from autoaccel.runtime.knobs import effects_of
from autoaccel.runtime.knobs.forms import has_form
from autoaccel.runtime.loaders import with_arguments
from autoaccel.runtime.loading import describe
from autoaccel.runtime.loop import Loop, device_of
from autoaccel.runtime.modules import before_norm
from autoaccel.runtime.training import Training
from autoaccel.space.knobs import KnobContext, default_settings

INPUTS = torch.randn(70, 1, 8, 8, generator=torch.Generator().manual_seed(0))
TARGETS = (INPUTS.mean(dim=(1, 2, 3)) > 0).long()


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.Flatten(), nn.Dropout(0.2), nn.Linear(64, 2)
    )


def training(**changes: object) -> Training:
    data = TensorDataset(INPUTS, TARGETS)
    return Training(
        **{  # type: ignore[arg-type]  # settings of any name
            "model": network(),
            "train_data": data,
            "eval_data": data,
            "batch_size": 16,
            "epochs": 2,
            "loss": nn.CrossEntropyLoss(),
            "optimizer": lambda parameters: torch.optim.Adam(parameters, lr=1e-2),
            "evaluate": "accuracy",
            **changes,
        }
    )


def loop_with(settings: Settings, **changes: object) -> Loop:
    made = training(**changes)
    torch.manual_seed(3)
    return Loop(made, Applied(settings), seed=3)


def losses(loop: Loop, steps: int = 10) -> list[float]:
    found = []
    for _ in range(steps):
        loop.step()
        found.append(loop.last_loss)
    return found


def test_a_loop_has_diverged_once_several_losses_in_a_row_are_no_numbers() -> None:
    """A single one may belong to its batch."""
    factors = [1.0, math.nan, 1.0, math.inf, math.nan, math.nan]

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        # The weights stay finite: only what is told counts.
        return nn.functional.cross_entropy(output, target).nan_to_num() + factors[min(len(found), 5)]

    loop, found = loop_with({}, loss=loss), list[bool]()
    for _ in factors:
        loop.step()
        found.append(loop.has_diverged)
    assert found == [False, False, False, False, False, True]


def test_defaults_train_as_a_plain_loop_does(context: KnobContext) -> None:
    """Ten steps over two epochs, bit for bit."""
    settings = default_settings(context) | {"threads.intra_op": torch.get_num_threads()}
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    torch.manual_seed(3)
    data = TensorDataset(INPUTS, TARGETS)
    order = RandomSampler(data, generator=torch.Generator().manual_seed(3))
    loader = DataLoader(data, batch_size=16, sampler=order, generator=torch.Generator())
    expected: list[float] = []
    while len(expected) < 10:
        for inputs, targets in loader:
            loss = nn.functional.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            optimizer.step()
            expected.append(float(loss.detach()))
    assert losses(loop_with(settings)) == expected


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ({"precision.autocast": "bfloat16"}, "torch.bfloat16"),
        ({"precision.autocast": "float16"}, "torch.float16"),
        ({"layout.channels_last": True}, "convolutions read images with channels last"),
        ({"optimizer.fused": True}, "Adam fused"),
    ],
)
def test_what_is_applied_shows_and_trains_alike(settings: Settings, shown: str) -> None:
    """Other rounding, the same training: the losses stay close to the plain ones, and are not the very same."""
    loop = loop_with(settings)
    found, plain = losses(loop), losses(loop_with({}))
    learned, ineffective = loop.applied.check()
    assert shown in learned[next(iter(settings))]
    assert not ineffective
    assert found == pytest.approx(plain, abs=0.05)


def test_autocast_reaches_the_model() -> None:
    seen = []
    model = network()
    model[0].register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))  # type: ignore[index]  # to mypy it may be a tensor
    loop_with({"precision.autocast": "bfloat16"}, model=model).step()
    assert seen == [torch.bfloat16]


def test_channels_last_reaches_batches_and_what_convolutions_read_and_no_weight() -> None:
    applied = Applied({"layout.channels_last": True})
    batch, labels = applied.batch((torch.ones(2, 3, 4, 5), torch.ones(2)))
    assert batch.stride() == (60, 1, 15, 3)
    assert labels.shape == (2,)
    seen: list[bool] = []

    class Recording(nn.Conv2d):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            output = super().forward(input)
            last = torch.channels_last
            seen.append(output.stride(1) == 1 and output.is_contiguous(memory_format=last))
            return output.contiguous()  # what follows is to be told once more

    model = nn.Sequential(Recording(1, 4, 3), Recording(4, 4, 3))
    assert applied.model(model) is model
    with applied.forward():
        model(torch.randn(2, 1, 8, 8)).sum().backward()
    assert seen == [True, True]
    for parameter in model.parameters():
        assert parameter.is_contiguous() and parameter.grad is not None and parameter.grad.is_contiguous()
    with torch.no_grad():
        model(torch.randn(2, 1, 8, 8))
    assert seen[2:] == [False, False]  # evaluations are as they were


def test_a_model_with_channels_last_is_copied_and_pickled_without_us(tmp_path: Path) -> None:
    applied = Applied({"layout.channels_last": True})
    model = applied.model(nn.Sequential(nn.Conv2d(3, 4, 3)))
    with applied.forward():
        expected = model(torch.ones(1, 3, 5, 5))
    torch.save(model, tmp_path / "model.pt")
    code = """
        import sys, torch
        model = torch.load(sys.argv[1], weights_only=False)
        print(model(torch.ones(1, 3, 5, 5)).sum().item(), "autoaccel" in sys.modules)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "model.pt")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    total, ours = done.stdout.split()
    assert float(total) == pytest.approx(expected.sum().item(), rel=1e-5) and ours == "False"
    torch.testing.assert_close(copy.deepcopy(model)(torch.ones(1, 3, 5, 5)), expected)


def test_a_model_with_channels_last_is_the_users_own_between_two_steps(tmp_path: Path) -> None:
    """It could not be exported, nor loaded under an allow-list of classes: hooks of ours were in it."""
    applied = Applied({"layout.channels_last": True})
    own = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 1, 3))
    model, optimizer = applied.model(own), applied.optimizer(torch.optim.SGD(own.parameters(), lr=0.1))
    for _ in range(2):
        with applied.forward():
            loss = model(applied.batch(torch.randn(2, 3, 7, 7))).sum()
        applied.backward(loss)
        applied.step(optimizer)
        torch.save(own, tmp_path / "model.pt")
        with torch.serialization.safe_globals([nn.Sequential, nn.Conv2d]):
            torch.load(tmp_path / "model.pt", weights_only=True)
        assert not any(module._forward_pre_hooks for module in own.modules())
    assert not applied.check()[1]


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, partial(torch.optim.SGD, momentum=0.9)])
@pytest.mark.parametrize("loads", ["before", "after", "in mid-run"])
def test_a_fused_optimizer_goes_on_from_a_state_of_another_layout(kind: Any, loads: str) -> None:
    """On CPUs weights got each other's moments, without a word, and a checkpoint took the form away."""

    def train(model: nn.Module, optimizer: torch.optim.Optimizer, applied: Applied, steps: int) -> None:
        for step in range(steps):
            torch.manual_seed(step)
            with applied.forward():
                loss = applied.model(model)(applied.batch(torch.randn(4, 3, 6, 6))).square().mean()
            applied.backward(loss)
            applied.step(optimizer)

    def begun() -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 5, 2))
        return model, kind(model.parameters(), lr=0.05)

    plain, optimizer = begun()
    train(plain, optimizer, Applied({}), 5)
    of_weights = copy.deepcopy(plain.state_dict())
    state = copy.deepcopy(optimizer.state_dict())
    for of_parameter in state["state"].values():  # as one was saved whose weights had channels last
        for name, value in of_parameter.items():
            if isinstance(value, torch.Tensor) and value.dim() == 4:
                of_parameter[name] = value.contiguous(memory_format=torch.channels_last)
    train(plain, optimizer, Applied({}), 5)

    model, resumed = begun()
    applied = Applied({"layout.channels_last": True, "optimizer.fused": True})
    if loads == "before":
        resumed.load_state_dict(state)
    resumed = applied.optimizer(resumed)
    if loads == "in mid-run":
        train(model, resumed, applied, 2)
    if loads != "before":
        resumed.load_state_dict(state)
    model.load_state_dict(of_weights)
    assert all(group["fused"] for group in resumed.param_groups)
    train(model, resumed, applied, 5)
    for one, other in zip(plain.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    for group in resumed.state_dict()["state"].values():
        assert all(value.is_contiguous() for value in group.values() if isinstance(value, torch.Tensor))


def test_a_fused_optimizer_keeps_groups_and_arguments() -> None:
    model = network()
    groups = [{"params": [*model[0].parameters()], "lr": 0.5}, {"params": [*model[2].parameters()]}]  # type: ignore[index]  # to mypy it may be a tensor
    optimizer = torch.optim.AdamW(groups, lr=0.1, weight_decay=0.3, betas=(0.8, 0.9))
    fused = Applied({"optimizer.fused": True}).optimizer(optimizer)
    assert [group["lr"] for group in fused.param_groups] == [0.5, 0.1]
    assert all(group["fused"] and group["weight_decay"] == 0.3 for group in fused.param_groups)
    assert fused.param_groups[0]["betas"] == (0.8, 0.9)
    assert type(fused) is torch.optim.AdamW


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad])
def test_every_optimizer_with_a_fused_form_makes_the_same_step(make: Callable[..., torch.optim.Optimizer]) -> None:
    results = []
    for fused in (False, True):
        parameter = nn.Parameter(torch.linspace(-1, 1, 7))
        optimizer = Applied({"optimizer.fused": fused}).optimizer(make([parameter], lr=0.1))
        assert has_form(optimizer, "fused")
        for _ in range(3):
            parameter.grad = parameter.detach() ** 2 + 0.1
            optimizer.step()
        results.append(parameter.detach())
    torch.testing.assert_close(results[0], results[1])


def test_an_optimizer_without_a_fused_form_is_told() -> None:
    loop = loop_with(
        {"optimizer.fused": True}, optimizer=lambda parameters: torch.optim.Rprop(parameters)
    )  # fmt: skip
    loop.step()
    assert loop.applied.check()[1] == {"optimizer.fused": "the optimizer has no fused form"}


def test_threads_are_set_in_this_process_and_somebody_elses_change_is_noticed() -> None:
    before = torch.get_num_threads()
    try:
        applied = Applied({"threads.intra_op": 1})
        assert torch.get_num_threads() == 1
        torch.set_num_threads(2)
        assert "torch uses 2 threads" in applied.check()[1]["threads.intra_op"]
    finally:
        torch.set_num_threads(before)


class Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(INPUTS)


class Words(Dataset[dict[str, torch.Tensor]]):
    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"x": INPUTS[index].flatten(), "y": TARGETS[index]}


def plain_step(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    return model(batch).square().mean()  # type: ignore[no-any-return]  # torch leaves it untyped


def test_iterable_data_and_a_step_of_ones_own() -> None:
    loop = loop_with({}, train_data=Stream(), loss=None, step=plain_step, steps_per_epoch=3)
    starts = [loop.step().begins_epoch for _ in range(7)]
    assert starts == [True, False, False, True, False, False, True]


def test_data_without_a_length_needs_the_steps_of_an_epoch() -> None:
    with pytest.raises(BadRequestError, match="steps_per_epoch must be given"):
        loop_with({}, train_data=Stream(), loss=None, step=plain_step)


def test_batches_may_be_dicts() -> None:
    model = nn.Linear(64, 2)
    loop = loop_with(
        {}, model=model, train_data=Words(), eval_data=Words(), batch_size=4, loss=None, evaluate=lambda m, loader: 0.5,
        step=lambda m, batch: nn.functional.cross_entropy(m(batch["x"]), batch["y"]),
    )  # fmt: skip
    assert losses(loop, 8)[-1] != losses(loop, 1)[-1]
    assert loop.samples_done == 36


def test_a_batch_that_is_no_pair_needs_a_step() -> None:
    with pytest.raises(BadRequestError, match="Give step=callable"):
        loop_with({}, train_data=Words(), batch_size=4).step()


def test_a_ready_loader_is_rebuilt_with_other_workers_in_the_same_order() -> None:
    data = TensorDataset(INPUTS, TARGETS)
    made = training(
        train_data=lambda: DataLoader(data, batch_size=16, shuffle=True, drop_last=True),
        eval_data=lambda: DataLoader(data, batch_size=16),
        batch_size=None,
    )
    orders = []
    for workers in (0, 1):
        loader = train_loader(made, Applied({"loader.workers": workers}), seed=4)
        assert isinstance(loader, DataLoader)
        assert loader.num_workers == workers
        orders.append([batch[1].tolist() for _ in range(2) for batch in loader])
    assert orders[0] == orders[1]
    assert len(orders[0]) == 8
    assert orders[0][:4] != orders[0][4:]


def test_workers_do_not_change_a_number() -> None:
    settings: Settings = {"threads.intra_op": torch.get_num_threads()}
    for batch_size in (16, 14):  # with and without an incomplete last batch
        found = [
            losses(loop_with({**settings, "loader.workers": workers}, batch_size=batch_size), 12) for workers in (0, 1)
        ]
        assert found[0] == found[1]


def test_a_loader_that_has_the_arguments_stays_itself() -> None:
    loader = DataLoader(TensorDataset(INPUTS), batch_size=4)
    assert with_arguments(loader, {"num_workers": 0, "pin_memory": False}, loader.dataset) is loader
    streamed = DataLoader(Stream(), batch_size=4, drop_last=True)
    rebuilt = with_arguments(streamed, {"num_workers": 1, "persistent_workers": True}, streamed.dataset)
    assert (rebuilt.batch_size, rebuilt.drop_last, rebuilt.num_workers) == (4, True, 1)


def test_the_last_step_of_an_epoch_is_known() -> None:
    """A warm-up that made one part of it only let all later steps begin in the middle of an accumulation."""

    def last_of(parts: int = 1, **changes: object) -> list[tuple[int, float, bool]]:
        made = train_loader(training(**changes), Applied({"optimizer.accumulation": parts}), seed=0)
        return [(len(batch[0]), piece.weight, piece.ends_step) for batch, piece in last_step(made)]

    assert last_of() == [(70 % 16, 1.0, True)]
    assert last_of(parts=4) == [(2, 4 / 3, False), (2, 4 / 3, False), (1, 2 / 3, False), (1, 2 / 3, True)]
    assert last_of(drop_last=True) == last_of(batch_size=35) == []
    streamed = train_loader(
        training(train_data=Stream(), loss=None, step=plain_step, steps_per_epoch=3), Applied({}), 0
    )
    assert last_step(streamed) == []


def test_schedules_advance_per_epoch_or_step_and_stop_with_the_plan() -> None:
    def one_cycle(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
        return torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=10)

    loop = loop_with({}, scheduler=one_cycle, scheduler_interval="step")
    losses(loop, 14)  # OneCycleLR raises when it is asked for an eleventh step
    loop = loop_with({}, scheduler=lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5))
    losses(loop, 5)
    assert loop.optimizer.param_groups[0]["lr"] == pytest.approx(1e-2)
    losses(loop, 1)
    assert loop.optimizer.param_groups[0]["lr"] == pytest.approx(5e-3)


def test_evaluation_changes_nothing() -> None:
    expected = losses(loop_with({}))
    watched = loop_with({})
    found = []
    for _ in range(10):
        found += losses(watched, 1)
        assert 0 <= watched.evaluate() <= 1
    assert found == expected
    assert watched.model.training


def test_a_loader_without_a_length_is_described() -> None:
    made = training(train_data=Stream(), loss=None, step=plain_step, steps_per_epoch=3)
    facts = describe(made)
    assert facts.loader_adjustable
    assert (facts.steps_per_epoch, facts.loader_workers) == (3, 0)


def test_a_larger_batch_makes_fewer_steps_of_the_same_epochs() -> None:
    loop = loop_with({"optimizer.batch_factor": 2.0, "optimizer.lr_rule": "linear"})
    assert (loop.steps_per_epoch, loop.planned_steps, loop.own_steps(10)) == (3, 6, 5)
    loop.step()
    assert loop.samples_done == 32
    assert "2 times the learning rate" in loop.applied.check()[0]["optimizer.lr_rule"]


def test_parts_of_a_batch_add_up_to_its_step() -> None:
    """Without dropout the weights follow those of the whole batch."""

    def loop_of(parts: int) -> Loop:
        torch.manual_seed(5)
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
        return loop_with({"optimizer.accumulation": parts}, model=model, drop_last=True)

    whole, parts = loop_of(1), loop_of(4)
    assert (parts.steps_per_epoch, whole.steps_per_epoch) == (4, 4)
    for _ in range(4):
        whole.step()
        parts.step()
    assert parts.samples_done == whole.samples_done == 64
    for one, other in zip(parts.plain_model.parameters(), whole.plain_model.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    assert "4 for each step" in parts.applied.check()[0]["optimizer.accumulation"]


class Counting(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Counts how often samples are loaded; adds noise if asked to."""

    def __init__(self, noise: bool = False) -> None:
        self.loaded = 0
        self.noise = noise

    def __len__(self) -> int:
        return len(INPUTS)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        self.loaded += 1
        return INPUTS[index] + (torch.rand(()) if self.noise else 0), TARGETS[index]


def test_cached_samples_are_loaded_once_and_are_the_same() -> None:
    data = Counting()
    cached = losses(loop_with({"loader.cache": True}, train_data=data))
    assert data.loaded == len(INPUTS)
    assert cached == losses(loop_with({}, train_data=Counting()))


def test_a_cache_in_workers_that_end_with_the_epoch_is_told_to_do_nothing() -> None:
    """Each epoch's workers loaded every sample again, and what was measured counted as cached."""
    loop = loop_with({"loader.cache": True, "loader.workers": 1, "loader.persistent": False})
    loop.step()
    assert loop.applied.check()[1] == {"loader.cache": "workers that are restarted for each epoch lose their samples"}


def test_only_samples_that_stay_the_same_could_be_cached() -> None:
    state = torch.random.get_rng_state()
    assert look_at_samples(DataLoader(Counting())).bytes_if_cached == len(INPUTS) * (64 * 4 + 8)
    assert look_at_samples(DataLoader(Counting(noise=True))).bytes_if_cached is None
    assert look_at_samples(DataLoader(Stream())).bytes_if_cached is None
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_training_is_described_as_knobs_ask() -> None:
    class Block(nn.Sequential):
        pass

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x)

    model = nn.Sequential(
        nn.Conv2d(1, 4, 8), nn.BatchNorm2d(4), nn.Flatten(), Layer(), Layer(), Block(nn.Linear(4, 2, bias=False))
    )
    facts = describe(training(model=model))
    assert (facts.biases, facts.biases_before_norm, facts.prunable_layers) == (3, 1, 4)
    assert facts.parameter_tensors == 9
    assert (facts.repeated_blocks, facts.blocks_normalise_batches) == (2, False)
    assert facts.has_batch_statistics and not describe(training()).has_batch_statistics
    assert facts.batch_adjustable and facts.optimizer_has_foreach
    assert facts.dataset_bytes == len(INPUTS) * (64 * 4 + 8)


def test_a_bias_that_something_else_sees_is_kept() -> None:
    class Forked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(1, 2, 8), nn.BatchNorm2d(2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen = self.conv(x)
            return (self.norm(seen) + seen).flatten(1)

    assert before_norm(Forked()) == []
    model = nn.Sequential(nn.Conv2d(1, 2, 8), nn.BatchNorm2d(2), nn.Flatten())
    assert before_norm(model) == [model[0]]
    assert before_norm(model.eval()) == []


def test_checkpointed_blocks_train_to_the_same_numbers() -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(64, 64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.inner(x))

    found = []
    for setting in ("off", "blocks"):
        torch.manual_seed(2)
        model = nn.Sequential(nn.Flatten(), Layer(), Layer(), nn.Linear(64, 2))
        found.append(losses(loop_with({"memory.checkpointing": setting}, model=model)))
    assert found[0] == found[1]


def test_kept_gradients_are_zeros() -> None:
    loop = loop_with({"memory.keep_gradients": True})
    loop.step()
    gradients = [parameter.grad for parameter in loop.plain_model.parameters()]
    assert all(gradient is not None and not gradient.any() for gradient in gradients)


@pytest.mark.parametrize("kind", [torch.optim.AdamW, partial(torch.optim.SGD, momentum=0.9, weight_decay=0.1)])
def test_a_head_that_takes_no_part_in_a_step_is_left_alone(kind: Any) -> None:
    """Kept gradients were zeros for it, with which the optimizer decayed and moved its weights."""

    def trained(keep: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        body, heads = nn.Linear(4, 8), nn.ModuleList(nn.Linear(8, 1) for _ in range(2))
        optimizer = kind([*body.parameters(), *heads.parameters()], lr=0.1)
        applied = Applied({"memory.keep_gradients": keep})
        for step in range(12):
            head = heads[step // 3 % 2]
            applied.backward(head(body(torch.randn(16, 4))).square().mean())
            if step % 2:
                assert applied.unscale(optimizer)  # it may be asked more than once
            applied.step(optimizer)
        return [parameter.detach() for parameter in (*body.parameters(), *heads.parameters())]

    for kept, plain in zip(trained(True), trained(False), strict=True):
        torch.testing.assert_close(kept, plain)


def test_effects_know_which_of_several_devices_it_is() -> None:
    """They were told "cuda" alone, which is the first: a side stream of `cuda:1` was one of `cuda:0`."""
    effects = effects_of({"memory.keep_gradients": True}, torch.device("cuda:1"))
    assert effects["memory.keep_gradients"].device == torch.device("cuda", 1)
    assert device_of(training(device="cuda:1")) == torch.device("cuda", 1)
