"""Options far out of what they may be, and variables that a launcher would set."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.doors import give, give_alone, refused
from tests.hostile.samples import MODEL, SCRIPT, as_json, recipe, write

MANY = "9" * 5000

TUNE = [
    ("--seed", str(2**40)),
    ("--seed", "-1"),
    ("--seed", MANY),
    ("--budget", "99999999999999"),
    ("--budget", "1e308"),
    ("--budget", "nan"),
    ("--budget", "inf"),
    ("--budget", "-5m"),
    ("--budget", f"{MANY}h"),
    ("--budget", "1\x1b[2Jm"),
    ("--max-drop", "1e308"),
    ("--max-drop", "nan%"),
    ("--max-drop", "-1"),
    ("--trials", "0"),
    ("--trials", str(10**12)),
    ("--metric-repeats", str(10**9)),
    ("--trainings", str(10**18)),
    ("--sampler", "no:Such"),
    ("--evidence", "none\x1b"),
    ("--set", "threads.intra_op=0"),
    ("--set", "threads.intra_op=100000"),
    ("--set", "threads.intra_op=two"),
    ("--set", f"threads.intra_op={MANY}"),
    ("--set", "threads.intra_op=\u0662"),
    ("--set", "loader.workers=-3"),
    ("--set", "loader.workers=5000"),
    ("--set", "threads.affinity=0-999999999999"),
    ("--set", f"threads.affinity={MANY}"),
    ("--set", f"threads.affinity={'0-8191,' * 9000}"),
    ("--set", "threads.affinity=\x1b[2J"),
    ("--set", "optimizer.batch_factor=nan"),
    ("--set", f"optimizer.batch_factor={MANY}"),
    ("--set", "parallel.world_size=5000"),
    ("--set", f"{'x' * 100_000}=1"),
    ("--set", "\x1b[2J"),
    ("--exclude", "\x1b[2J"),
    ("--study", "x"),
    ("--workers", MANY),
    ("--no-such\x1b[2J", "1"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "train.py").write_text(SCRIPT)
    write(tmp_path / "recipe.json", as_json(recipe()))
    return tmp_path


@pytest.mark.parametrize(("option", "value"), TUNE, ids=[f"{option}-{n}" for n, (option, _) in enumerate(TUNE)])
def test_an_option_of_tune_that_nobody_could_mean(folder: Path, option: str, value: str) -> None:
    refused(give(["tune", "model.py", f"{option}={value}"], folder))


OF_SCRIPTS = [
    ("--steps", "0"),
    ("--steps", MANY),
    ("--steps", str(10**15)),
    ("--hours", "0"),
    ("--hours", "nan"),
    ("--hours", "inf"),
    ("--hours", "1e300"),
    ("--metric", "("),
    ("--metric", "(a)(b)"),
    ("--metric-file", "x"),
    ("--arg", "=1"),
    ("--arg", "a b=1"),
    ("--arg", "x=1,,2"),
    ("--arg", "\x1b[2J"),
]


@pytest.mark.parametrize(("option", "value"), OF_SCRIPTS)
def test_an_option_of_a_script_that_nobody_could_mean(folder: Path, option: str, value: str) -> None:
    refused(give(["tune", "train.py", f"{option}={value}", "--direction=maximize"], folder))


OTHERS = [
    ["verify", "recipe.json", "model.py", "--pairs", "2"],
    ["verify", "recipe.json", "model.py", "--pairs", str(10**9)],
    ["verify", "recipe.json", "model.py", "--budget", "99999999999999"],
    ["run", "recipe.json", "model.py", "--seed", str(2**40)],
    ["run", "recipe.json", "model.py", "--seed", "-1"],
    ["run", "recipe.json", "model.py", "--max-restarts", str(10**9)],
    ["run", "recipe.json", "model.py", "--checkpoint-every", "1e300"],
    ["run", "recipe.json", "model.py", "--save", "."],
    ["run", "recipe.json", "model.py", "--save", "none/x.pt"],
    ["launch", "--dry-run", "recipe.json", "model.py", "--ranks", "0"],
    ["launch", "--dry-run", "recipe.json", "model.py", "--ranks", "100000"],
    ["launch", "--dry-run", "recipe.json", "model.py", "--nodes", str(10**9)],
    ["launch", "--dry-run", "recipe.json", "model.py", "--max-restarts", "-1"],
    ["launch", "--dry-run", "recipe.json", "model.py", "--seed", str(2**40)],
    ["launch", "--dry-run", "recipe.json", "model.py", "--checkpoint-every", "99999999999999"],
    ["launch", "--dry-run", "recipe.json", "model.py", "--with", "\x1b[2J"],
    ["launch", "--dry-run", "recipe.json", "model.py", "--hosts", "a;b"],
    ["tune", "model.py", "--storage", "s.journal", "--with", "slurm", "--workers", str(10**9), "--dry-run"],
    ["scale", "--measured", "1=0,2=5", "--predict", "8"],
    ["scale", "--measured", "1=nan,2=5", "--predict", "8"],
    ["scale", "--measured", "1=1e308,2=1e308", "--predict", "8"],
    ["scale", "--measured", f"{MANY}=1,2=5", "--predict", "8"],
    ["scale", "--measured", "1=10,2=5", "--predict", MANY],
    ["scale", "--measured", "1=10,2=5", "--predict", str(10**15)],
    ["scale", "--measured", "1=10,2=5", "--predict", ",".join(map(str, range(3, 5000)))],
    ["scale", "--measured", "1=10,2=5", "--predict", "8", "--machines-of", "0"],
    ["scale", "--measured", "1=10,2=5", "--predict", "8", "--steps", str(10**30), "--gradient-bytes", "4"],
]


@pytest.mark.parametrize("arguments", OTHERS, ids=[f"{arguments[0]}-{n}" for n, arguments in enumerate(OTHERS)])
def test_an_option_of_another_command_that_nobody_could_mean(folder: Path, arguments: list[str]) -> None:
    refused(give(arguments, folder))


@pytest.mark.parametrize("port", ["0", "65536", MANY, "http", "-1", "\u0663", "1\x1b[2J"])
def test_a_port_that_is_none(folder: Path, port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_PORT", port)
    refused(give(["launch", "--dry-run", "recipe.json", "model.py", "--nodes", "2"], folder), "MASTER_PORT must be")


@pytest.mark.parametrize(
    "variables",
    [
        {"RANK": MANY, "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": "29500"},
        {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": MANY},
        {"RANK": "5", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": "29500"},
        {"RANK": "-1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": "29500"},
        {"RANK": "x\x1b[2J"},
    ],
)
def test_a_rank_that_no_launcher_makes(
    folder: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"MASTER_ADDR": "localhost", **variables}.items():
        monkeypatch.setenv(name, value)
    refused(give(["run", "recipe.json", "model.py"], folder))


@pytest.mark.parametrize(
    "option", ["--seed=1099511627776", "--budget=99999999999999", f"--set=threads.affinity={MANY}"]
)
def test_as_a_user_runs_it(folder: Path, option: str) -> None:
    refused(give_alone(["tune", "model.py", option], folder))
