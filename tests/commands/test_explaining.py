"""What to change in a script by hand: the patch is applied, and the script that comes of it runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from autoaccel.commands.explaining import _changes, explain
from autoaccel.commands.source_edits import Source, keyword_edit, line_after_edit
from autoaccel.commands.use import RecipeUse
from autoaccel.records.by_hand import Explanation, Unplaced
from autoaccel.records.script import LoaderKey, ScriptFacts, SeenLoader, SeenModel, SeenOptimizer
from autoaccel.records.workload import Script
from autoaccel.report.patch import patch_lines
from autoaccel.space.knobs import KNOBS
from tests.report.samples import RECIPE

SCRIPTS = Path(__file__).parents[1] / "scripts"
LOADER = SeenLoader(LoaderKey("TensorDataset", 512, 32, "RandomSampler"), "train.py:16", 16, feeds=True)
MLP = ScriptFacts(
    (SeenModel("Sequential", 1218, 1218, "train.py:19"),),
    (SeenOptimizer("AdamW", 1218, "train.py:20"),),
    (LOADER,),
    (0,),
    "cpu",
    0.001,
    20,
    16,
    320,
)
VALUES = {
    "loader.workers": 1,
    "loader.persistent": True,
    "loader.context": "fork",
    "optimizer.foreach": "on",
    "precision.autocast": "bfloat16",
    "precision.flush_denormals": True,
    "precision.float32_matmul": "high",
    "model.attention": "math",
    "threads.inter_op": 2,
}


def lines_of(values: dict[str, object]) -> list[Unplaced]:
    found = []
    for name, value in values.items():
        by_hand = KNOBS[name].by_hand
        assert by_hand is not None
        found.append(Unplaced(name, by_hand(value, "cpu")))  # type: ignore[arg-type]  # of the types that knobs have
    return found


def test_the_changed_script_runs_and_has_the_effects(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text((SCRIPTS / "mlp.py").read_text().replace("n_epochs = 20", "n_epochs = 1"))
    (file,), unplaced = _changes(path, MLP, lines_of(VALUES))
    assert not unplaced
    for code in (
        'DataLoader(train_ds, 32, True, num_workers=1, persistent_workers=True, multiprocessing_context="fork")',
        "AdamW(model.parameters(), lr=1e-2, foreach=True)",
        "torch.set_num_interop_threads(2)\n",
        'torch.autocast("cpu", dtype=torch.bfloat16), torch.nn.attention.sdpa_kernel(',
    ):
        assert code in file.after, file.after
    assert file.after.count("with torch.autocast") == 1  # around what is trained, not around the evaluation
    shows = "print(train_dl.num_workers, opt.defaults['foreach'], torch.get_num_interop_threads())"
    path.write_text(f"{file.after}\n{shows}\n")
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "1 True 2"


def test_the_patch_is_one_that_patch_can_apply(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text((SCRIPTS / "mlp.py").read_text())
    files, unplaced = _changes(path, MLP, lines_of({"loader.workers": 2, "layout.channels_last": True}))
    also = tuple(lines_of({"layout.channels_last": True}))
    explanation = Explanation(("OMP_NUM_THREADS=1", "python", "train.py"), True, files, also, unplaced, ("a.b=3",))
    lines = list(patch_lines(explanation))
    assert lines[0] == "# Start it with: OMP_NUM_THREADS=1 python train.py"
    assert lines[-1] == "# a.b=3: no line has the same effect; `autoaccel run` has"
    assert lines[-2].startswith("# layout.channels_last also needs: each batch of images in training")
    (tmp_path / "a.patch").write_text("\n".join(lines) + "\n")
    subprocess.run(["git", "apply", "--unsafe-paths", "a.patch"], cwd=tmp_path, check=True)
    assert path.read_text() == files[0].after
    assert "model = model.to(memory_format=torch.channels_last)\n" in files[0].after


@pytest.mark.parametrize(
    ("source", "code", "changed"),
    [
        ("x = DataLoader(d)", "num_workers=2", "x = DataLoader(d, num_workers=2)"),
        ("x = DataLoader(d, num_workers=n)", "num_workers=2", "x = DataLoader(d, num_workers=2)"),
        ("x = DataLoader(d, 4, True, None, None, 8)", "num_workers=2", "x = DataLoader(d, 4, True, None, None, 2)"),
        ("x = data.DataLoader(\n    d,\n    batch_size=4,\n)", "num_workers=2",
         "x = data.DataLoader(\n    d,\n    batch_size=4, num_workers=2,\n)"),
        ("x = DataLoader()", "num_workers=2", "x = DataLoader(num_workers=2)"),
        ("x = make(d)", "num_workers=2", None),
        ("x = DataLoader((d))", "num_workers=2", "x = DataLoader((d, num_workers=2))"),  # no Python
    ],
)  # fmt: skip
def test_a_call_gets_an_argument(source: str, code: str, changed: str | None) -> None:
    read = Source(source)
    edit = keyword_edit(read, 1, "DataLoader", code)
    assert (edit is None) == (changed is None)
    if edit is not None:
        expected = None if changed == "x = DataLoader((d, num_workers=2))" else changed
        assert read.edited([edit]) == expected


def test_lines_after_one_statement_keep_their_order_and_its_indent() -> None:
    read = Source("class A:\n    def f(self):\n        self.net = Net(\n            3)\n        return 1")
    edits = [line_after_edit(read, 3, "self.net = a(self.net)"), line_after_edit(read, 4, "self.net = b(self.net)")]
    assert read.edited([edit for edit in edits if edit]) == (
        "class A:\n    def f(self):\n        self.net = Net(\n            3)\n"
        "        self.net = a(self.net)\n        self.net = b(self.net)\n        return 1"
    )


def test_a_place_that_is_not_there_is_told_in_words(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("import torch\nmake_all()\n")
    files, unplaced = _changes(path, MLP, lines_of({"loader.workers": 2, "precision.autocast": "bfloat16"}))
    assert not files
    first, second = patch_lines(Explanation((), False, files, (), unplaced, ()))
    assert first == "# loader.workers, an argument of the DataLoader that feeds the training: num_workers=2"
    assert second.startswith("# precision.autocast, around each call of the model in training: with torch.autocast(")


def test_each_knob_that_works_in_scripts_can_be_done_by_hand_or_has_variables() -> None:
    without = [
        knob.name
        for knob in KNOBS.values()
        if "script" in knob.acts_in and knob.by_hand is None and knob.environment.__name__ == "_nothing"
    ]
    assert without == ["memory.checkpointing", "compile.region"]  # these change modules one by one


def test_what_a_launcher_starts_is_changed_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text((SCRIPTS / "mlp.py").read_text())
    settings = {**RECIPE.baseline.settings, "optimizer.foreach": "on"}
    recipe = msgspec.structs.replace(RECIPE, settings=settings, script=MLP)
    arguments = ("--nproc_per_node", "2", "train.py")
    script = Script("/usr/bin/torchrun", "/usr/bin/torchrun", str(tmp_path), "0" * 64, arguments)
    found = explain(RecipeUse(recipe, tmp_path / "recipe.json", script))
    assert found.command == ("torchrun", *arguments)
    assert not found.is_started_otherwise and not found.unplaced
    (file,) = found.files
    assert "AdamW(model.parameters(), lr=1e-2, foreach=True)" in file.after
