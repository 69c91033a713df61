"""Run folders that others have filled, studies that others write to, and what a program passes to the functions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import optuna
import pytest

import autoaccel
from autoaccel.errors import BadRequestError
from autoaccel.records.contender import ContenderResult
from autoaccel.records.messages import Failure
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Trial
from autoaccel.runs.workloads import find_workload
from autoaccel.search.economy import Economy
from autoaccel.search.study import SearchStudy
from autoaccel.search.task import Prior, SearchTask
from autoaccel.space.knobs import KnobContext, baseline_settings
from tests.hostile.doors import give, refused
from tests.hostile.samples import MODEL, as_json, failed_trial, recipe, run_record, this_machine, write
from tests.samples import FACTS

RESUME = ["tune", "model.py", "--output", "run", "--resume"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of this machine that was interrupted after a trial."""
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "run").mkdir()
    write(tmp_path / "run" / "run.json", as_json(run_record(find_workload(str(tmp_path / "model.py")))))
    write(tmp_path / "run" / "trials.jsonl", as_json(failed_trial()))
    with (tmp_path / "run" / "trials.jsonl").open("a") as file:
        file.write("\n")
    return tmp_path


def change(path: Path, place: str, value: Any) -> None:
    found = json.loads(path.read_text())
    *parts, last = place.split(".")
    inside = found
    for part in parts:
        inside = inside[part]
    inside[last] = value
    path.write_text(json.dumps(found) + "\n")


RECORDS: list[tuple[str, Any]] = [
    ("request.options.seed", 1 << 40),
    ("request.options.seed", "x"),
    ("request.options.trials", -5),
    ("request.options.trainings", 0),
    ("request.options.metric_repeats", 1 << 60),
    ("request.options.evidence", "none"),
    ("baseline_settings", {"threads.intra_op": 100_000}),
    ("baseline_settings", {"threads.affinity": "0-999999999999"}),
    ("baseline_settings", {"loader.workers": -1}),
    ("baseline.startup_seconds", -1.0),
    ("baseline.warmup_step_seconds", [0]),
    ("facts.epochs", -1),
    ("machine.cpu.logical_cores", 1 << 40),
    ("demand", {"step_seconds": 1e308, "peak_bytes": 1}),
    ("schema", "autoaccel/run/3"),
    ("schema", []),
    ("request", None),
]


@pytest.mark.parametrize(("place", "value"), RECORDS)
def test_the_record_of_a_run_that_is_to_be_resumed(folder: Path, place: str, value: Any) -> None:
    change(folder / "run" / "run.json", place, value)
    refused(give(RESUME, folder), "run")


SETTINGS: list[tuple[str, Any]] = [
    ("threads.intra_op", 100_000),
    ("threads.intra_op", "two"),
    ("threads.affinity", "0-999999999999"),
    ("threads.affinity", "9" * 5000),
    ("loader.workers", 5000),
    ("parallel.world_size", 5000),
    ("memory.allocator", "/tmp/x.so"),
    ("no.knob", 1),
    ("loader.workers", int("1" * 400)),
]


@pytest.mark.parametrize("file", ["trials.jsonl", "contenders.jsonl"])
@pytest.mark.parametrize(("name", "value"), SETTINGS)
def test_settings_of_a_run_that_is_to_be_resumed(folder: Path, file: str, name: str, value: Any) -> None:
    path = folder / "run" / file
    if file == "contenders.jsonl":
        write(path, as_json(ContenderResult({}, 1, "incomplete")))
    change(path, "settings", {name: value})
    refused(give(RESUME, folder), "run")


LINES: dict[str, bytes] = {
    "no JSON": b"hello\n",
    "another record": b"{}\n",
    "an empty line": b"\n",
    "nested": b"[" * 50_000 + b"\n",
    "not UTF-8": b'{"number": "\xff"}\n',
    "a line without an end": b"x" * (5 << 20),
    "zeros": bytes(1 << 20) + b"\n",
}


@pytest.mark.parametrize("lines", LINES.values(), ids=LINES)
@pytest.mark.parametrize("door", [RESUME, ["show", "run"]], ids=["tune --resume", "show"])
def test_trials_that_are_damaged(folder: Path, door: list[str], lines: bytes) -> None:
    with (folder / "run" / "trials.jsonl").open("ab") as file:
        file.write(lines)
    assert "trials.jsonl:2" in refused(give(door, folder))


def test_a_last_trial_that_a_kill_has_cut_off_is_left_out(folder: Path) -> None:
    with (folder / "run" / "trials.jsonl").open("ab") as file:
        file.write(b'{"number": 2, "settings": {"loader.wor')
    shown = give(["show", "run"], folder)
    assert shown.code == 0
    assert "1  failed" in " ".join(shown.stdout.split()) or "crashed" in shown.stdout


# --- studies ------------------------------------------------------------------------------------------------

SAYS: dict[str, Callable[[optuna.Trial], None]] = {
    "impossible settings": lambda trial: _claims(trial, {"threads.intra_op": 100_000}),
    "a list of CPUs": lambda trial: _claims(trial, {"threads.affinity": "0-999999999999"}),
    "an unknown knob": lambda trial: _claims(trial, {"no.knob": 1}),
    "a word as a number": lambda trial: _claims(trial, {"loader.workers": "two"}),
    "settings that are none": lambda trial: _claims(trial, [1, 2]),
    "a reading that is none": lambda trial: _claims(trial, {}, reading="x"),
    "a worker that is none": lambda trial: _claims(trial, {}, worker=5),
    "no worker": lambda trial: trial.set_user_attr("settings", {}),
    "no record": lambda trial: _finishes(trial, {"trial": 1, "trial 0": "{}"}),
    "half a record": lambda trial: _finishes(trial, {"trial": 2, "trial 0": "{"}),
    "endless pieces": lambda trial: _finishes(trial, {"trial": 10**12}),
    "no pieces": lambda trial: _finishes(trial, {"trial": -1}),
    "a nested record": lambda trial: _finishes(trial, {"trial": 1, "trial 0": "[" * 9000}),
    "another's record": lambda trial: _finishes(trial, _record({"loader.workers": 4})),
}


def _claims(trial: optuna.Trial, settings: object, reading: object = 0, worker: object = "worker 00000 x") -> None:
    for name, value in (("worker", worker), ("reading", reading), ("settings", settings)):
        trial.set_user_attr(name, value)


def _finishes(trial: optuna.Trial, attributes: dict[str, Any]) -> None:
    _claims(trial, {"loader.workers": 2})
    for name, value in attributes.items():
        trial.set_user_attr(name, value)
    trial.study.tell(trial, 1.0)


def _record(settings: Settings) -> dict[str, Any]:
    text = msgspec.json.encode(Trial(1, settings, Failure("crashed", "it does"), 3.5)).decode()
    return {"trial": 1, "trial 0": text}


@pytest.mark.parametrize("says", SAYS.values(), ids=SAYS)
def test_a_study_to_which_something_else_writes(says: Callable[[optuna.Trial], None]) -> None:
    context = KnobContext(this_machine(), FACTS)
    own = baseline_settings(context)
    space = SearchSpace("default", {"loader.workers": (0, 2)}, own, {})
    task = SearchTask(space, own, Economy(20, 1000, 0.1, 1.0, 0.0, 5.0), Prior([], {}))
    storage = optuna.storages.InMemoryStorage()
    ours = SearchStudy(storage, "study", "here")
    ours.context = context
    ours.search(task, optuna.samplers.RandomSampler())
    says(optuna.load_study(study_name="study", storage=storage).ask())
    with pytest.raises(BadRequestError) as error:
        ours.look()
    assert len(str(error.value)) < 1000
    assert "of the study" in str(error.value)


JOURNALS: dict[str, bytes] = {
    "no JSON": b"hello\nhello\n",
    "another JSON": b'{"op_code": 99}\n{}\n',
    "nested": b"[" * 50_000 + b"\n{}\n",
    "not UTF-8": b"\xff\xff\n{}\n",
    "numbers": b"1\n2\n",
}


@pytest.mark.parametrize("data", JOURNALS.values(), ids=JOURNALS)
def test_a_journal_that_is_none(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "study.journal").write_bytes(data)
    refused(give(["tune", "model.py", "--storage", "study.journal"], tmp_path), "study.journal")


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/full", "."])
def test_a_journal_that_is_no_file(tmp_path: Path, target: str) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "study.journal").symlink_to(target)
    refused(give(["tune", "model.py", "--storage", "study.journal"], tmp_path), "must be a regular file")


# --- functions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "value"), SETTINGS)
def test_apply_refuses_what_a_recipe_cannot_have(tmp_path: Path, name: str, value: Any) -> None:
    found = as_json(recipe())
    found["settings"][name] = value
    with pytest.raises(BadRequestError):
        autoaccel.apply(write(tmp_path / "recipe.json", found))


@pytest.mark.parametrize(
    "settings",
    [
        {"threads.intra_op": None},
        {"threads.intra_op": [1]},
        {"threads.intra_op": 10**5000},
        {"threads.intra_op": float("inf")},
        {"threads.affinity": "x" * 100_000},
        {5: 1},
    ],
)
def test_a_training_states_settings_that_are_values(settings: Any) -> None:
    from torch import nn

    with pytest.raises(BadRequestError, match="Training: settings must name knobs") as error:
        autoaccel.Training(
            model=nn.Linear(1, 1),
            train_data=[1],
            eval_data=[1],
            optimizer=lambda parameters: None,
            evaluate="accuracy",
            epochs=1,
            batch_size=1,
            loss=nn.CrossEntropyLoss(),
            settings=settings,
        )
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize(("name", "value"), SETTINGS[:-1])
def test_settings_that_a_training_states_are_within_their_domains(name: str, value: Any) -> None:
    context = KnobContext(this_machine(), msgspec.structs.replace(FACTS, settings={name: value}))
    with pytest.raises(BadRequestError, match=r"Training\(settings=...\)"):
        baseline_settings(context)


@pytest.mark.parametrize(
    "options",
    [{"trials": "x"}, {"seed": None}, {"seed": 1.5}, {"seed": 10**5000}, {"trainings": True}, {"budget": 1e300}],
)
def test_autotune_refuses_what_no_option_can_be(tmp_path: Path, options: dict[str, Any]) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    with pytest.raises(BadRequestError):
        autoaccel.autotune(tmp_path / "model.py", output=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()
