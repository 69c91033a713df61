"""Workers that share a study: one alone searches as ever, several run nothing twice, unlike machines are refused."""

from __future__ import annotations

import json
import multiprocessing
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import optuna
import pytest

from autoaccel.errors import BadRequestError
from autoaccel.records.advice import Diagnosis
from autoaccel.records.machine import Machine
from autoaccel.records.messages import Failure, Turn
from autoaccel.records.profile import Profile
from autoaccel.records.progress import ignore
from autoaccel.records.settings import Settings, settings_key
from autoaccel.records.space import SearchSpace
from autoaccel.records.study import StudyBasis
from autoaccel.records.trial import Measurement, Trial
from autoaccel.records.workload import BuildFunction
from autoaccel.report.conclusions import elsewhere_words
from autoaccel.runs.sharing import (
    agree_on_diagnosis,
    find_study,
    proof_elsewhere,
    showing_life,
)
from autoaccel.search.economy import Economy
from autoaccel.search.instruments import Instruments, QuickLook, Reading
from autoaccel.search.loop import Search
from autoaccel.search.storage import open_storage
from autoaccel.search.study import SearchStudy
from autoaccel.search.task import Prior, SearchTask

WriteModel = Callable[..., Path]
BASELINE: Settings = {"precision.autocast": "off", "layout.channels_last": False, "loader.workers": 0}
SPACE = SearchSpace(
    name="test",
    open={
        "precision.autocast": ("off", "bfloat16"),
        "layout.channels_last": (False, True),
        "loader.workers": (0, 1, 2),
    },
    fixed={},
    closed={},
)
SPEEDUPS = {"bfloat16": 1.5, "True": 1.1, "1": 1.05, "2": 0.8}
STEP_SECONDS = 0.04
DIAGNOSIS = Diagnosis((), Profile(0.1, None, {}, (), {}, 0, 0, 0))


class ExactSource:
    """Tells the truth, after a while."""

    def __init__(self, seconds: float = 0.0, together: float = 1.0) -> None:
        self.seconds = seconds
        self.together = together  # what bfloat16 and channels last win beside the product of both
        self.spent = 0.0
        self.left = 1000.0

    def compare(self, settings: Settings, look: QuickLook) -> Reading | Failure:
        time.sleep(self.seconds)
        self.spent += 5.0
        if settings["loader.workers"] == 1 and settings["layout.channels_last"]:
            return Failure("crashed", "it does")
        speedup = 1.0
        for value in settings.values():
            speedup *= SPEEDUPS.get(str(value), 1.0)
        if settings["layout.channels_last"] and settings["precision.autocast"] == "bfloat16":
            speedup *= self.together
        pairs = [(STEP_SECONDS, STEP_SECONDS / speedup)] * 4
        turns = tuple(Turn((baseline,)) for baseline, _ in pairs)
        measurement = Measurement(3.0, (STEP_SECONDS,), tuple(Turn((other,)) for _, other in pairs))
        return Reading(measurement, turns, pairs, trusted=True)


class StuckSource(ExactSource):
    """Tells that it measures, and goes on for ever."""

    def __init__(self, told: Any) -> None:
        super().__init__()
        self.told = told

    def compare(self, settings: Settings, look: QuickLook) -> Reading | Failure:
        self.told.put("measuring")
        time.sleep(600)
        raise AssertionError("it was to be killed")


def searching(study: SearchStudy | None, source: ExactSource) -> Search:
    economy = Economy(1000, 20_000, STEP_SECONDS, 3.0, 0.0, 4.0)
    prior = Prior([{**BASELINE, "precision.autocast": "bfloat16"}], dict.fromkeys(BASELINE, 0.2))
    return Search(
        SearchTask(SPACE, BASELINE, economy, prior), Instruments(source.compare, source, ignore, ignore), study
    )


def joined(storage: str, host: str) -> SearchStudy:
    study = SearchStudy(open_storage(storage), "study", host)
    study.peers.beat()
    return study


def nothing(settings: Settings, speedup: float | None) -> float:
    return 0.0


def work(storage: str, number: int, results: Any) -> None:
    """Be one of several workers, each trial of which takes half a second; the first never finishes one."""
    study = SearchStudy(open_storage(storage), "study", f"host-{number}", grace_seconds=2.0)
    with showing_life(study, 0.2):
        search = searching(study, ExactSource(0.5) if number else StuckSource(results))
        ended = search.run(nothing)
        assert search.best is not None
        results.put((number, ended, settings_key(search.best.settings), Counter(map(key_of, search.trials))))


def key_of(trial: Trial) -> tuple[str, bool]:
    return settings_key(trial.settings), trial.again


def claims_in(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Return all claims of the study, as Optuna sees them."""
    return [trial for trial in study.get_trials(deepcopy=False) if "settings" in trial.user_attrs]


@pytest.fixture(params=["study.journal", "study.db"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path = tmp_path / request.param
    return str(path) if path.suffix == ".journal" else f"sqlite:///{path}"


def test_one_worker_alone_makes_the_trials_of_an_unshared_search(storage: str) -> None:
    alone, shared = searching(None, ExactSource()), searching(joined(storage, "a"), ExactSource())
    assert alone.run(nothing) == shared.run(nothing)
    assert len(alone.trials) > 3
    assert shared.trials == alone.trials
    assert shared.best == alone.best


def test_who_comes_later_knows_everything_and_measures_nothing_again(storage: str) -> None:
    first = searching(joined(storage, "a"), ExactSource())
    ended = first.run(nothing)
    later = searching(joined(storage, "b"), ExactSource())
    assert later.run(nothing) == ended
    assert [msgspec.structs.replace(trial, host="") for trial in later.trials] == first.trials
    assert {trial.host for trial in later.trials} == {"a"}


def test_others_see_a_second_reading_claimed_as_soon_as_they_see_the_first(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else they could end in between: nothing would be measured, and nothing more would be worth a trial to them."""
    watching = joined(storage, "b")
    seen: list[bool] = []

    def finish(study: SearchStudy, claimed: optuna.Trial, trial: Trial) -> None:
        tell(study, claimed, trial)
        seen.append(watching.look().measuring)

    tell = SearchStudy.finish
    monkeypatch.setattr(SearchStudy, "finish", finish)
    search = searching(joined(storage, "a"), ExactSource(together=6.0))
    search.run(nothing)
    second = [trial.again for trial in search.trials]
    assert any(second)
    assert seen == [*second[1:], False]


def test_of_four_workers_one_is_killed_and_nothing_is_lost_or_run_twice(storage: str) -> None:
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=work, args=(storage, number, results)) for number in range(4)]
    doomed, *survivors = workers
    doomed.start()
    assert results.get(timeout=300) == "measuring"
    for worker in survivors:
        worker.start()
    study = optuna.create_study(storage=open_storage(storage), study_name="study", load_if_exists=True)
    while len(claims_in(study)) < 3:
        time.sleep(0.05)
    doomed.kill()
    found = {number: rest for number, *rest in (results.get(timeout=300) for _ in survivors)}
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [-signal.SIGKILL, 0, 0, 0]
    claims = claims_in(study)
    assert all(claim.state.is_finished() for claim in claims)
    done = [claim for claim in claims if "trial" in claim.user_attrs]
    times = Counter((settings_key(claim.user_attrs["settings"]), claim.user_attrs["reading"]) for claim in done)
    assert set(times.values()) == {1}
    # On a busy machine a survivor may be silent for a while, too: what it measured still counts once.
    lost = [claim.user_attrs for claim in claims if claim.user_attrs.get("given up") == "silent"]
    assert any(" host-0 " in claim["worker"] for claim in lost)
    assert all(times[settings_key(claim["settings"]), claim["reading"]] == 1 for claim in lost)
    # All survivors find the same best.
    assert {best for _, best, _ in found.values()} == {settings_key({**BASELINE, "precision.autocast": "bfloat16",
                                                                     "layout.channels_last": True})}  # fmt: skip
    # The last to end knows of everything. Another may have ended while one that had not yet heard of the last trial
    # decided on a further one.
    known = Counter((key, reading > 0) for key, reading in times)
    learned = [trials for _, _, trials in found.values()]
    assert known in learned
    assert all(trials <= known for trials in learned)


def test_unlike_machines_are_kept_apart_and_in_one_study_refused(storage: str, machine: Machine) -> None:
    workload = BuildFunction("/a/model.py", "build", "f00")
    other = msgspec.structs.replace(machine, cpu=msgspec.structs.replace(machine.cpu, model="Another CPU"))
    here, there = (StudyBasis.of(workload, one, BASELINE, SPACE) for one in (machine, other))
    with find_study(storage).join("model", here) as study:
        agree_on_diagnosis(study, here, DIAGNOSIS)
        with find_study(storage).join("model", there) as apart:
            assert apart.name != study.name
        with (
            pytest.raises(BadRequestError, match=r"CPU Test CPU, here Another CPU.*Use another --study"),
            find_study(storage, study.name).join("model", there),
        ):
            pass
        elsewhere = msgspec.structs.replace(workload, path="/b/model.py")
        with find_study(storage).join("model", StudyBasis.of(elsewhere, machine, BASELINE, SPACE)) as same:
            assert same.name == study.name
            other = Diagnosis((), msgspec.structs.replace(DIAGNOSIS.profile, step_seconds=0.2))
            assert agree_on_diagnosis(same, here, other) == DIAGNOSIS


def test_the_first_worker_proves_and_if_it_is_gone_the_next(storage: str, machine: Machine) -> None:
    basis = StudyBasis.of(BuildFunction("/a/model.py", "build", "f00"), machine, BASELINE, SPACE)
    with find_study(storage).join("model", basis) as first:
        with find_study(storage).join("model", basis) as second:
            assert proof_elsewhere(first, None) is None
            now = proof_elsewhere(second, None)
            assert now is not None and "the first of its workers, proves the best" in elsewhere_words(now, 3)
        with find_study(storage).join("model", basis) as third:
            first.leave()
            first.peers.show_judged(BASELINE)
            assert proof_elsewhere(third, None) is None
            ended = proof_elsewhere(third, BASELINE)
            assert ended is not None and "already tried to prove the best" in elsewhere_words(ended, 3)


# Each sample takes two milliseconds of waiting, not of computing: several workers on one machine do not disturb
# one another.
WAITING = """
import time
from torch.utils.data import Dataset

class Waiting(Dataset):
    def __len__(self):
        return 72

    def __getitem__(self, index):
        time.sleep(0.002)
        return INPUTS[index], TARGETS[index]

tiny = build

def build():
    return tiny(train_data=Waiting(), epochs=20)
"""


@pytest.mark.long
@pytest.mark.end_to_end
def test_two_machines_tune_together_and_one_of_them_writes_the_recipe(write_model: WriteModel, tmp_path: Path) -> None:
    write_model(WAITING)
    (tmp_path / "workers.toml").write_text('title = "workers only"\n[knobs]\n"loader.workers" = [0, 1, 2]\n')
    command = [sys.executable, "-m", "autoaccel", "tune", "model.py", "--budget", "4m", "--trainings", "1000"]
    command += ["--space", "workers.toml", "--storage", "study.journal", "--output"]
    tuners = [
        subprocess.Popen(
            [*command, f"run-{number}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path
        )
        for number in range(2)
    ]
    told = [tuner.communicate(timeout=400)[0] for tuner in tuners]
    assert all(tuner.returncode in (0, 1) for tuner in tuners), told
    recipes = [tmp_path / f"run-{number}" / "recipe.json" for number in range(2)]
    proved = [recipe.exists() for recipe in recipes]
    assert sorted(proved) == [False, True], told
    other = proved.index(False)
    assert tuners[other].returncode == 0
    assert "trials of all workers are in the study model-" in told[other]
    runs = [trials_of(tmp_path / f"run-{number}") for number in range(2)]
    first = [settings_key(t["settings"]) for run in runs for t in run if not t.get("host") and not t.get("again")]
    assert len(first) == len(set(first)) >= 1
    assert json.loads(recipes[proved.index(True)].read_text())["search"]["trials"] == len(runs[proved.index(True)])

    changed = subprocess.run(
        [*command, "run-2", "--study", study_in(told[other]), "--exclude", "threads.intra_op", "--set",
         "loader.workers=2"], capture_output=True, text=True, cwd=tmp_path, timeout=300,
    )  # fmt: skip
    assert changed.returncode == 2, changed.stdout + changed.stderr
    assert "was started under other conditions (another search space: loader.workers=0|1|2, here 2" in changed.stderr
    assert not (tmp_path / "run-2").exists()


def trials_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "trials.jsonl").read_text().splitlines()]


def study_in(output: str) -> str:
    words = output.replace(";", " ").split()
    return next(word for word in words if word.startswith("model-"))
