"""A draft of build() for a script: what is left to do is marked, and what was done trains."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from autoaccel.commands.drafting import draft_build
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
    done = subprocess.run([sys.executable, "-c", checks], cwd=tmp_path, capture_output=True, text=True, timeout=100)
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
