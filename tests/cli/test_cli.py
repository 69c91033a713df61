"""The command line: instant help, one clear error for bad input, and the documented JSON."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from autoaccel.cli import _parse
from tests.hostile.doors import give

WriteModel = Callable[..., Path]


def autoaccel(
    *arguments: str | Path, cwd: Path | None = None, timeout: float = 300.0
) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does, in a process of its own."""
    command = [sys.executable, "-m", "autoaccel", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=timeout)


@pytest.mark.parametrize(
    "code", ["import autoaccel", "from autoaccel.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass"]
)
def test_import_and_help_are_instant_and_load_nothing_heavy(code: str) -> None:
    """No library is loaded, and of the standard library and of this package no more than takes an instant.

    Modules are counted, because a clock would say more of what else the machine is doing: 84 take 0.1 s.
    """

    def modules(code: str) -> set[str]:
        code += "\nimport sys; print(*sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return set(done.stdout.splitlines()[-1].split())

    loaded = modules(code) - modules("")
    assert {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names == {"autoaccel"}
    assert len(loaded) <= 100


def test_without_a_command_the_help_is_shown() -> None:
    done = autoaccel()
    assert done.returncode == 2
    assert "tune" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tune", "none.py"], "none.py: there is no such file"),
        (["tune", "{folder}"], "there is no such file"),
        (["tune", "notes.txt"], "must be a Python file"),
        (["tune", "model.py", "--budget", "soon"], "must be a time above zero"),
        (["tune", "model.py", "--max-drop", "some"], "--max-drop must be a share"),
        (["tune", "model.py", "--trials", "0"], "--trials must be at least 1, got 0"),
        (["tune", "model.py", "--metric-repeats", "1"], "--metric-repeats must be at least 2"),
        (["tune", "model.py", "--stdin", "notes.txt"], "--stdin: for a script only"),
        (["tune", "--script", "model.py", "--stdin", "none.txt"], "--stdin none.txt: must be a regular file"),
        (["tune", "model.py", "--resume"], "there is no run of model to resume"),
        (["tune", "model.py", "--sampler", "bayes"], "--sampler must be autoaccel, tpe, "),
        (["tune", "model.py", "--sampler", "mine:Own"], "there is no module mine. Run autoaccel in the folder of mine"),
        (["tune", "model.py", "--output", "full"], "must be a new or empty folder"),
        (["tune", "model.py", "--storage", "study.txt"], "--storage must be a path that ends in .journal or .log"),
        (["tune", "model.py", "--storage", "nothing://host/name"], "pip install 'autoaccel[storage]'"),
        (["tune", "model.py", "--study", "mine"], "require --storage"),
        (["tune", "model.py", "--storage", "a.journal", "--workers", "8"], "run this command by hand on every machine"),
        (["tune", "model.py", "--storage", "a.journal", "--with", "slurm"], "--with slurm requires --workers"),
        (["run", "notes.txt", "model.py"], "this is not a recipe"),
        (["verify", "none.json", "model.py"], "none.json: cannot be read"),
        (["show", "full"], "this folder does not contain a run"),
        (["hardware", "--topology", "none.txt"], "none.txt: cannot be read"),
        (["hardware", "--topology", "{folder}"], "must be a regular file, but it is a folder"),
        (["hardware", "--topology", "notes.txt"], "notes.txt: this is not what `nvidia-smi topo -m` prints"),
    ],
)
def test_bad_input_is_one_clear_error_and_writes_nothing(
    write_model: WriteModel, tmp_path: Path, arguments: list[str], message: str
) -> None:
    write_model()
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("x")
    done = give([argument.format(folder=tmp_path) for argument in arguments], tmp_path)
    assert message in done.stderr
    assert done.code == 2 and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "model", "module"),
    [
        (["--stdin", "settings.json", "train.py"], "train.py", None),
        (["train.py", "--stdin", "settings.json"], "train.py", None),
        (["--script", "train.py", "--", "--epochs", "3"], "train.py", None),
        (["-m", "own.train", "--", "--epochs", "3"], None, "own.train"),
    ],
)
def test_options_may_stand_between_the_recipe_and_the_file(
    arguments: list[str], model: str | None, module: str | None
) -> None:
    parsed = _parse(["run", "recipe.json", *arguments])
    assert (parsed.recipe, parsed.model, parsed.module) == ("recipe.json", model, module)
    assert parsed.arguments == (["--epochs", "3"] if "--" in arguments else [])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--space", "gpus"], "must be one of default, everything, exact-only, quick or a .toml file"),
        (["--set", "precision.autocast=bf16"], "must be one of off, bfloat16"),
        (["--set", "layout.channels_last=on"], "the model has no convolution over images"),
    ],
)
def test_wishes_that_this_machine_or_model_cannot_meet(
    write_model: WriteModel, tmp_path: Path, options: list[str], message: str
) -> None:
    done = autoaccel("tune", write_model(), *options, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert not (tmp_path / "autoaccel-runs").exists()


REFUSED = [
    (["--space", "gpus"], "--space gpus: must be one of "),
    (["--space", "broken.toml"], "broken.toml: this is not a search space"),
    (["--space", "bytes.toml"], "bytes.toml: cannot be read as text"),
    (["--space", "unknown.toml"], "unknown.toml: there is no knob 'threads.intra'. Did you mean threads.intra_op?"),
    (["--space", "nothing.toml"], 'must be "all" or a list of values, got []'),
    (["--set", "precision.autocast"], "--set precision.autocast: must be knob=value"),
    (["--set", "autocast=bfloat16"], "Did you mean precision.autocast?"),
    (["--exclude", "threads.intra"], "Did you mean threads.intra_op?"),
    (["--exclude", "loader.workers", "--set", "loader.workers=2"], "is both set and excluded"),
    (["--set", "precision.autocast=bf16"], "precision.autocast must be one of off, bfloat16"),
    (["--set", "threads.intra_op=100000"], "--set: threads.intra_op "),
    (["--budget", "300ms"], "--budget must be at least 10s"),
]
Refusals = list[tuple[int, str, list[str]]]
REFUSES = """
import contextlib, io, json, sys
from autoaccel.cli import main

found = []
for options in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as told:
        code = main(["tune", "model.py", *options])
    loaded = [name for name in ("torch", "autoaccel.workers.worker") if name in sys.modules]
    found.append((code, told.getvalue(), loaded))
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> Refusals:
    """What each command of REFUSED returns and tells, and what was loaded by then; in one new process."""
    folder = tmp_path_factory.mktemp("refused")
    files = {
        "model.py": b"def build(): ...",
        "broken.toml": b"[knobs",
        "bytes.toml": b"\xff",
        "unknown.toml": b'title = "t"\n[knobs]\n"threads.intra" = [1]\n',
        "nothing.toml": b'title = "t"\n[knobs]\n"threads.intra_op" = []\n',
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    program = [sys.executable, "-c", REFUSES, json.dumps([options for options, _ in REFUSED])]
    done = subprocess.run(program, capture_output=True, text=True, cwd=folder, timeout=300, check=True)
    assert {path.name for path in folder.iterdir()} == set(files)
    found: Refusals = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("number", range(len(REFUSED)), ids=[" ".join(options) for options, _ in REFUSED])
def test_what_no_training_could_have_here_is_refused_before_anything_is_started(
    number: int, refusals: Refusals
) -> None:
    """It took seven seconds of probing, in processes that each load torch, to be told of a typing error."""
    code, told, loaded = refusals[number]
    assert code == 2
    assert REFUSED[number][1] in told and len(told.splitlines()) == 1
    assert loaded == []  # no worker could have been started


@pytest.mark.parametrize(
    ("code", "status", "message"),
    [
        pytest.param(
            "def build():\n    print('x' * 5_000_000)\n    return 1 / 0", 3, "return 1 / 0", marks=pytest.mark.long
        ),
        ("def build():\n    os.kill(os.getpid(), 11)", 3, "SIGSEGV"),
        pytest.param(
            "def build():\n    import time\n    time.sleep(600)", 2, "no step was made", marks=pytest.mark.long
        ),
        pytest.param(
            "def build():\n    return 'a model'",
            2,
            "build() must return an autoaccel.Training, got str",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "tiny = build\ndef build():\n    return tiny(settings={'workers': 2})",
            2,
            "there is no knob 'workers'",
            marks=pytest.mark.long,
        ),
        (
            "tiny = build\ndef build():\n    return tiny(loss=lambda output, target: output.no_such)",
            3,
            "has no attribute 'no_such'",
        ),
    ],
)
def test_user_code_that_fails_shows_its_own_traceback_and_leaves_nothing(
    write_model: WriteModel, tmp_path: Path, code: str, status: int, message: str
) -> None:
    budget = "20s" if "sleep" in code else "20m"  # beside other tests its own error may take half a minute to come
    done = autoaccel("tune", write_model(code), "--budget", budget, cwd=tmp_path)
    assert done.returncode == status, done.stderr
    assert message in done.stderr
    assert "autoaccel/session" not in done.stderr
    assert len(done.stderr) < 10_000
    assert not (tmp_path / "autoaccel-runs").exists()


def test_the_script_for_a_cluster_runs_the_same_command(write_model: WriteModel, tmp_path: Path) -> None:
    done = autoaccel(
        "tune", "--storage", "a b.journal", "--with", "slurm", "--workers", "8", "--dry-run", "--budget", "20m",
        "--exclude", "loader.workers", write_model(), "--", "--epochs", "3", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "#SBATCH --array=1-8\n" in done.stdout
    command = shlex.split(next(line for line in done.stdout.splitlines() if line.startswith("exec ")))
    assert command[1:5] == [sys.executable, "-m", "autoaccel", "tune"]
    told = dict(zip(command[5:-4:2], command[6:-4:2], strict=True))
    assert told.pop("--output") == "autoaccel-runs/model-$SLURM_ARRAY_JOB_ID-$SLURM_ARRAY_TASK_ID"
    assert told == {
        "--budget": "20m", "--metric-repeats": "3", "--evidence": "any",
        "--space": "default", "--sampler": "autoaccel", "--seed": "0", "--trainings": "20",
        "--storage": "a b.journal", "--exclude": "loader.workers",
    }  # fmt: skip
    assert command[-4:] == [str(tmp_path / "model.py"), "--", "--epochs", "3"]
    assert [path.name for path in tmp_path.iterdir()] == ["model.py"]


def test_knobs_are_listed_as_documented() -> None:
    done = autoaccel("knobs", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert {row["name"] for row in rows} >= {
        "threads.intra_op", "precision.autocast", "compile.mode", "layout.channels_last", "loader.workers",
        "loader.pin_memory", "optimizer.fused",
    }  # fmt: skip
    for row in rows:
        assert row.keys() >= {"name", "group", "values", "default", "stage", "risk", "available", "reason"}
        assert row["available"] == (row["reason"] == "")


def test_hardware_is_told_as_json_and_as_text() -> None:
    found = json.loads(autoaccel("hardware", "--json").stdout)
    assert found["torch"]["intra_op_threads"] >= 1
    assert found["cpu"]["logical_cores"] >= len(found["limits"]["affinity"]) >= 1
    text = autoaccel("hardware").stdout
    assert found["torch"]["version"] in text


TOPOLOGY = """\
\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity
GPU0\t X \tSYS\tNV4\tSYS\t0-3,8-11\t0
GPU1\tSYS\t X \tSYS\tNV4\t4-7,12-15\t1
GPU2\tNV4\tSYS\t X \tSYS\t0-3,8-11\t0
GPU3\tSYS\tNV4\tSYS\t X \t4-7,12-15\t1
"""


def test_the_gpus_of_another_machine_to_train_on_are_told_as_text_and_as_json(tmp_path: Path) -> None:
    (tmp_path / "topology.txt").write_text(TOPOLOGY)
    done = autoaccel("hardware", "--topology", "topology.txt", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("2 GPUs: 0,2  NV4 between them") for line in lines)
    assert any(line.strip() == "GPU 2: CPUs 2-3,10-11" for line in lines)
    assert "CUDA_VISIBLE_DEVICES=0,2" in done.stdout
    told = json.loads(autoaccel("hardware", "--topology", "topology.txt", "--json", cwd=tmp_path).stdout)
    assert told["interconnect"]["links"][0] == ["X", "SYS", "NV4", "SYS"]
    pair, everyone = told["sets"]
    assert pair["gpus"] == [0, 2]
    assert everyone["slowest"] == "SYS" and sorted(everyone["hops"]) == ["NV4", "NV4", "SYS", "SYS"]


@pytest.mark.long
def test_advice_is_told_as_json_and_a_trace_is_written(write_model: WriteModel, tmp_path: Path) -> None:
    done = autoaccel("advise", write_model(), "--json", "--trace", tmp_path / "trace.json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.keys() >= {"findings", "profile", "machine", "limits"}
    assert sum(found["profile"]["phases"].values()) == pytest.approx(1.0)
    for finding in found["findings"]:
        assert finding.keys() >= {"code", "title", "share", "bound_speedup", "evidence", "knobs", "advice"}
    worth = [finding["expected_speedup"] for finding in found["findings"]]
    assert worth == sorted(worth, reverse=True)
    assert found["limits"]["rates"]["matmul"]["float32"] > 0
    assert found["profile"]["flops"]["matmul"] > 0
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_tensorboard_that_is_not_installed_is_one_clear_error(write_model: WriteModel, tmp_path: Path) -> None:
    if find_spec("tensorboard") is not None:
        pytest.skip("tensorboard is installed")
    done = autoaccel("advise", write_model(), "--tensorboard", tmp_path)
    assert done.returncode == 2
    assert "pip install 'autoaccel[tensorboard]'" in done.stderr


def test_a_trace_in_no_folder_is_one_clear_error(write_model: WriteModel, tmp_path: Path) -> None:
    done = autoaccel("advise", write_model(), "--trace", tmp_path / "nowhere" / "trace.json")
    assert done.returncode == 2
    assert "its folder does not exist" in done.stderr
