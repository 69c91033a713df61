"""A draft of build() for a script: what is left to do is marked, and what was done trains."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from autoaccel.cli import main
from autoaccel.commands.drafting import draft_build, todo_lines
from autoaccel.errors import BadRequestError

SCRIPTS = Path(__file__).parents[1] / "scripts"


def test_a_draft_holds_the_scripts_own_lines(tmp_path: Path) -> None:
    path = tmp_path / "digits.py"
    path.write_text((SCRIPTS / "digits.py").read_text())
    draft = draft_build(path, "digits_build.py")
    for line in (
        "from digits import Net, load_data, train, test",
        "    # TODO: train_data, args, test_data must be made first, as digits.py does.",
        "    model = Net()",
        "        train_data=lambda: train_loader,",
        "        eval_data=lambda: test_loader,",
        "        optimizer=lambda params: torch.optim.Adam(params, lr=args.lr),",
        "        loss=F.cross_entropy,",
        "        epochs=args.epochs,",
    ):
        assert f"{line}\n" in draft, draft
    assert draft.count("TODO") == 3  # with the one in its first line

    path = tmp_path / "digits_build.py"
    made = "    import types\n    args = types.SimpleNamespace(lr=1e-3, epochs=1, batch_size=64)\n"
    marked = "    # TODO: train_data, args, test_data must be made first, as digits.py does.\n"
    path.write_text(draft.replace(marked, f"{made}    train_data, test_data = load_data()\n"))
    checks = "import digits_build; found = digits_build.build(); print(type(found).__name__, found.epochs)"
    done = subprocess.run([sys.executable, "-c", checks], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.returncode) == ("Training 1\n", 0), done.stderr


def test_a_flat_script_gives_what_it_makes(tmp_path: Path) -> None:
    draft = draft_build(SCRIPTS / "mlp.py", "mlp_build.py")
    assert "    model = nn.Sequential(" in draft and "        epochs=n_epochs,\n" in draft
    assert "        loss=loss_fn,\n" in draft
    assert "# TODO: train_ds, val_ds, loss_fn, n_epochs must be made first, as mlp.py does." in draft
    compile(draft, "mlp_build.py", "exec")


def test_what_cannot_be_read_is_left_to_do(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("import torch\nnet = make()\nopt = torch.optim.SGD(net.parameters(), 0.1)\n")
    draft = draft_build(path, "build.py")
    assert "        step=None,  # TODO: a function of model and batch that returns the loss\n" in draft
    assert "        train_data=lambda: None,  # TODO: the loader of the training, or its dataset\n" in draft
    assert "        optimizer=lambda params: torch.optim.SGD(params, 0.1),\n" in draft
    path.write_text("print('hello')")
    with pytest.raises(BadRequestError, match="must make an optimizer, as in optimizer = "):
        draft_build(path, "build.py")
    path.write_text("def (")
    with pytest.raises(BadRequestError, match="cannot be read as Python"):
        draft_build(path, "build.py")


LOOP = """
import torch
from torch.utils.data import DataLoader, TensorDataset


def data():
    x = torch.randn(64, 8)
    return TensorDataset(x, x[:, :2].argmax(1))


if __name__ == "__main__":
    train_loader = DataLoader(data(), batch_size=32, shuffle=True)
    val_loader = DataLoader(data(), batch_size=64)
    model = torch.nn.Linear(8, 2)
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=5)
    slow = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=200)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, slow], milestones=[5])
    for epoch in range(2):
        for number, (xb, yb) in enumerate(train_loader):
            loss = criterion(model(xb), yb) / 2
            loss.backward()
            if number % 2:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                scheduler.step()
"""


ACCUMULATES = (
    "train.py:26 accumulates gradients over several batches, and a Training makes a step of each: let train_data give "
    "batches that are as many times as large."
)


def test_a_draft_trains_with_the_scripts_schedule_and_clipped_gradients(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOOP)
    draft = draft_build(tmp_path / "train.py", "train_build.py")
    assert [todo for _, todo in todo_lines(draft)] == [
        "criterion must be made first, as train.py does.",
        ACCUMULATES,
        "the metric: this one, or a function of model and loader, with its direction",
    ]
    made = draft.replace("    # TODO: criterion", "    criterion = torch.nn.CrossEntropyLoss()\n    #", 1)
    (tmp_path / "train_build.py").write_text(made)
    checks = """
import train_build
found = train_build.build()
print(found.clip, found.scheduler_interval, found.epochs, type(found.loss).__name__)
scheduler = found.scheduler(found.make_optimizer(found.model))
print(type(scheduler).__name__, [type(one).__name__ for one in scheduler._schedulers])
"""
    done = subprocess.run([sys.executable, "-c", checks], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines() == [
        "Clip(norm=1.0, value=None) step 2 CrossEntropyLoss",
        "SequentialLR ['LinearLR', 'CosineAnnealingLR']",
    ], done.stderr


@pytest.mark.parametrize(
    ("old", "new", "argument", "todo"),
    [
        ("                scheduler.step()", "        scheduler.step()", 'scheduler_interval="epoch",\n', ""),
        ("scheduler.step()", "scheduler.step(loss)", "", "train.py:28 has a learning-rate scheduler: give scheduler="),
        ("                scheduler.step()", "                sched[0].step()", "", "train.py:28 has a learning-rate"),
        ("                scheduler.step()", "", "", '"step", if it is advanced after each step'),
        ("scheduler.step()", "if epoch: scheduler.step()", "", "train.py:28 advances it under a"),
        ("scheduler.step()", "optimizer.param_groups[0]['lr'] = 1 / number", "", "train.py:28 sets the learning rate"),
        ("grad_norm_(model.parameters(), 1.0)", "grad_value_(model.parameters(), clip_value=0.5)",
         "clip=Clip(value=0.5),\n", ""),
        ("_(model.parameters(), 1.0)", "_(model.parameters(), 1.0, 1)", "", "train.py:25 clips gradients: give clip="),
        ("_(model.parameters(), 1.0)", "_(model[0].parameters(), 1.0)", "", "train.py:25 clips gradients: give clip="),
        ("torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)", "fabric.clip_gradients(model, optimizer)", "",
         "train.py:25 clips gradients: give clip="),
        ("torch.nn.utils", "if epoch: torch.nn.utils", "", "train.py:25 clips under a condition"),
        ("if number % 2:", "if number % 2: continue\n            if True:", "", "train.py:27 accumulates gradients"),
        ("loss = criterion", "with accelerator.accumulate(model): loss = criterion", "", "accumulates gradients"),
        ("            loss.backward()", "            for part in loss: part.backward()", "", "accumulates gradients"),
        ("loss = criterion(", "with torch.autocast('cpu'): loss = criterion(", "", "22 computes under autocast: name"),
        ("    for epoch", "    scaler = torch.amp.GradScaler()\n    for epoch", "", "train.py:20 scales the loss"),
        ("    for epoch", "    model = torch.compile(model)\n    for epoch", "", "train.py:20 compiles model: name"),
        ("optimizer.zero_grad()", "other_optimizer.step()", "", "train.py:27 updates by other_optimizer, too."),
    ],
)  # fmt: skip
def test_whatever_a_loop_does_is_kept_or_left_to_do(
    old: str, new: str, argument: str, todo: str, tmp_path: Path
) -> None:
    assert old in LOOP
    (tmp_path / "train.py").write_text(LOOP.replace(old, new))
    draft = draft_build(tmp_path / "train.py", "train_build.py")
    assert argument in draft and any(todo in line for _, line in todo_lines(draft)), draft


def test_a_loop_that_makes_an_update_of_each_loss_accumulates_nothing(tmp_path: Path) -> None:
    once = LOOP.replace("if number % 2:", "if True or loss.isfinite():").replace("loss.backward()", "pass")
    (tmp_path / "train.py").write_text(once.replace("optimizer.step()", "loss.backward(); optimizer.step()"))
    assert "accumulates" not in draft_build(tmp_path / "train.py", "train_build.py")


def test_what_is_left_to_do_is_told_on_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text(LOOP)
    assert main(["init", str(tmp_path / "train.py")]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    written = (tmp_path / "train_build.py").read_text().splitlines()
    assert first.endswith("Complete its 3 lines marked TODO, then tune it.") and len(lines) == 3
    for line in lines:
        place, what = line.split(": ", 1)
        assert written[int(place.removeprefix("  line ")) - 1].endswith(f"# TODO: {what}")
    assert any("accumulates gradients over several batches" in line for line in lines)
