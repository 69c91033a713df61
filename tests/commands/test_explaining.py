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
from autoaccel.records.script import LoaderKey, SeenLoader, SeenModel, SeenOptimizer
from autoaccel.records.seen import ScriptFacts
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


@pytest.mark.long
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
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
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


COMPILED = {"compile.mode": "default", "compile.backend": "inductor"}
AROUND = (
    "# precision.autocast=bfloat16, around each call of the model in training: with "
    'torch.autocast("cpu", dtype=torch.bfloat16)'
)
TRAINED_BY = "import torch\nfrom a import Trainer, NeuralNet, TrainingArguments\nLINE\n"


@pytest.mark.parametrize(
    ("line", "kind", "held_as", "compiled"),
    [
        ("model = torch.nn.Linear(2, 2)", "Linear", None, "model"),
        ("model = torch.nn.Linear(2, 2).to('cpu')", "Linear", ("model",), "model"),
        ("self.net = torch.nn.Linear(2, 2)", "Linear", None, "self.net"),
        ("net = create('resnet')", "ResNet", None, "net"),  # the function that made it has ended
        ("net = create('resnet')", "ResNet", ("net", "other"), "net"),
        ("model = Auto.from_pretrained('a')", "Bert", ("model",), "model"),
        ("model = Wrapped(torch.nn.Linear(2, 2))", "Net", ("model",), "model"),  # its __new__ returns another
        ("trainer = Trainer(model=torch.nn.Linear(2, 2))", "Linear", ("x",), ""),
        ("trainer = Trainer(model=torch.nn.Linear(2, 2))", "Linear", None, ""),
        ("learner = vision_learner(data, 'resnet')", "Sequential", (), ""),
        ("model = PPO('MlpPolicy', env)", "Policy", None, ""),
        ("fit(torch.nn.Linear(2, 2))", "Linear", (), ""),
    ],
)
def test_a_model_is_compiled_and_nothing_that_holds_it(
    line: str, kind: str, held_as: tuple[str, ...] | None, compiled: str, tmp_path: Path
) -> None:
    path = tmp_path / "train.py"
    path.write_text(TRAINED_BY.replace("LINE", line))
    model = SeenModel(kind, 6, 6, "train.py:3", held_as)
    seen = msgspec.structs.replace(MLP, models=(model,))
    files, unplaced = _changes(path, seen, lines_of(COMPILED))
    arguments = 'mode="default", backend="inductor"'
    if compiled:
        assert f"{line}\n{compiled} = torch.compile({compiled}, {arguments})\n" in files[0].after and not unplaced
        return
    assert not files
    assert list(patch_lines(Explanation((), False, files, (), unplaced, ()))) == [
        f"# compile.mode, compile.backend, where the model is made: model = torch.compile(model, {arguments})"
    ]


@pytest.mark.parametrize(
    ("line", "settings", "said"),
    [
        ("a = TrainingArguments('out')", {"compile.mode": "default"},
         '# compile.mode=default: TrainingArguments(..., torch_compile=True, torch_compile_mode="default")'),
        ("a = TrainingArguments('out')", {"precision.autocast": "bfloat16"},
         "# precision.autocast=bfloat16: TrainingArguments(..., bf16=True)"),
        ("a = NeuralNet(Net)", {"compile.mode": "default"},
         '# compile.mode=default: NeuralNet(..., compile=True, compile__mode="default")'),
        ("import lightning as L; t = L.Trainer()", {"precision.autocast": "bfloat16"},
         '# precision.autocast=bfloat16: Trainer(..., precision="bf16-mixed")'),
        ("t = Trainer()", {"precision.autocast": "bfloat16"}, AROUND),
    ],
)  # fmt: skip
def test_a_trainer_with_a_switch_is_told_by_that(
    line: str, settings: dict[str, object], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "train.py"
    path.write_text(TRAINED_BY.replace("LINE", line))
    facts = msgspec.structs.replace(MLP, models=(SeenModel("Net", 6, 6, ""),), optimizers=(), loaders=())
    recipe = msgspec.structs.replace(RECIPE, settings={**RECIPE.baseline.settings, **settings}, script=facts)
    script = Script(str(path), "train.py", str(tmp_path), "0" * 64)
    assert list(patch_lines(explain(RecipeUse(recipe, tmp_path / "recipe.json", script)))) == [said]


def test_a_program_is_started_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "learn"
    program.write_text(f"#!{sys.executable}\nimport learning\n")
    program.chmod(0o755)
    settings = {**RECIPE.baseline.settings, "threads.intra_op": 1}
    recipe = msgspec.structs.replace(RECIPE, settings=settings, script=MLP)
    for path, name in ((f"{tmp_path}/bin:/usr/bin:/bin", "learn"), ("/usr/bin:/bin", str(program))):
        monkeypatch.setenv("PATH", path)
        script = Script(str(program), str(program), str(tmp_path), "0" * 64, ("train", "--depth", "3"))
        command = explain(RecipeUse(recipe, tmp_path / "recipe.json", script)).command
        assert command[command.index(name) :] == (name, "train", "--depth", "3") and "python" not in command
