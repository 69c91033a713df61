"""The shared study in real storages, with real processes: who may measure what, who is alive, what is kept."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import optuna
import pytest

from autoaccel.errors import AutoaccelError, BadRequestError
from autoaccel.records.advice import Diagnosis
from autoaccel.records.messages import Failure, Turn
from autoaccel.records.profile import Profile
from autoaccel.records.settings import Settings
from autoaccel.records.study import STUDY_SCHEMA, StudyBasis, StudyHead
from autoaccel.records.trial import Comparison, Measurement, Trial
from autoaccel.search.storage import open_storage
from autoaccel.search.study import SearchStudy

BASIS = StudyBasis("0", "f00", "build", (), {"CPU": "a"}, {"a": 1}, {"a": (1, 2)}, {})
HEAD = StudyHead(STUDY_SCHEMA, BASIS, Diagnosis((), Profile(0.1, None, {}, (), {}, 0, 0, 0)))
GRACE_SECONDS = 1.0
Join = Callable[..., SearchStudy]


def trial_of(settings: Settings, total_seconds: float | None = 10.0) -> Trial:
    """Return a finished trial with more raw times than one attribute holds."""
    turns = tuple(Turn(tuple(0.1 + 0.001 * step for step in range(200))) for _ in range(12))
    if total_seconds is None:
        return Trial(1, settings, Failure("crashed", "it does"), 2.0)
    comparison = Comparison(1.2, 1.1, 1.3, "faster", 0.95, 1, 12)
    outcome = Measurement(1.0, (0.1,), turns)
    return Trial(1, settings, outcome, 5.0, comparison, 0.1, total_seconds, baseline_turns=turns)


@pytest.fixture
def join(storage: str) -> Join:
    """Return a function that joins one study of this test as another worker."""
    name = uuid.uuid4().hex

    def joined(host: str = "host", name: str = name, grace_seconds: float = GRACE_SECONDS) -> SearchStudy:
        study = SearchStudy(open_storage(storage), name, host, grace_seconds)
        study.peers.beat()
        return study

    return joined


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a worker that runs this code; it may print and be killed."""
    lines = (
        "import sys, time, json",
        "from autoaccel.search.study import SearchStudy",
        "from autoaccel.search.storage import open_storage",
        "storage, name = sys.argv[1:3]",
        code,
    )
    command = [sys.executable, "-W", "error", "-c", "\n".join(lines), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def claim(study: SearchStudy, settings: Settings) -> optuna.Trial:
    """Return the claim that this worker gets: nobody was before it."""
    claimed = study.claim(settings, 0)
    assert claimed is not None
    return claimed


HAMMER = """
study = SearchStudy(open_storage(storage), name, sys.argv[3])
study.peers.beat()
print(json.dumps([number for number in range(40) if study.claim({"a": number % 20}, number // 20)]))
"""
DIE = """
study = SearchStudy(open_storage(storage), name, "doomed")
study.peers.beat()
assert study.claim({"a": 7}, 0)
print("measuring", flush=True)
time.sleep(600)
"""


def test_of_four_workers_that_want_the_same_exactly_one_gets_it(join: Join, storage: str) -> None:
    """They come at once to a storage without tables, and no settings are claimed twice or by nobody."""
    name = f"hammer-{uuid.uuid4().hex}"
    workers = [start(HAMMER, storage, name, f"host-{number}") for number in range(4)]
    won = [json.loads(worker.communicate(timeout=120)[0]) for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 4
    assert Counter(number for numbers in won for number in numbers) == Counter(range(40))


def test_what_one_finishes_all_others_learn_once(join: Join) -> None:
    first, second = join("a"), join("b")
    trial = trial_of({"a": 2, "b": True, "c": 1.5, "d": "on"})
    claimed = claim(first, trial.settings)
    look = second.look()
    assert look.measuring and look.busy == {"a=2 b=on c=1.5 d=on"}
    first.finish(claimed, trial)
    first.finish(claim(first, {"a": 3}), trial_of({"a": 3}, None))
    look = second.look()
    assert [(found.settings, found.host) for found in look.trials] == [(trial.settings, "a"), ({"a": 3}, "a")]
    assert look.trials[0].outcome == trial.outcome and look.trials[0].baseline_turns == trial.baseline_turns
    assert isinstance(look.trials[1].outcome, Failure)
    assert not look.measuring and not look.busy and not look.orphans
    assert second.look().trials == () == first.look().trials
    assert len(join("c").look().trials) == 2


def test_what_is_finished_is_not_measured_again_unless_one_more_reading_is_wanted(join: Join) -> None:
    first, second = join(), join()
    claimed = claim(first, {"a": 2})
    assert not second.claim({"a": 2}, 0)
    first.finish(claimed, trial_of({"a": 2}))
    assert not second.claim({"a": 2}, 0)
    assert second.claim({"a": 2}, 1)


def test_the_claim_of_a_killed_worker_is_left_to_the_others(join: Join, storage: str) -> None:
    name = f"killed-{uuid.uuid4().hex}"
    survivor, other = join("a", name), join("b", name)
    worker = start(DIE, storage, name)
    assert worker.stdout is not None and worker.stdout.readline() == "measuring\n"
    look = survivor.look()
    assert look.busy == {"a=7"} and not look.orphans
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    assert not survivor.claim({"a": 7}, 0)  # it may still live
    survivor.wait(60)
    look = survivor.look()
    assert look.orphans == ({"a": 7},) and not look.busy and not look.measuring
    claimed = claim(survivor, {"a": 7})
    other.peers.beat()
    assert not other.claim({"a": 7}, 0)
    survivor.finish(claimed, trial_of({"a": 7}))
    assert other.look().orphans == ()


def test_settings_with_which_two_workers_died_are_not_tried_by_a_third(join: Join) -> None:
    survivor = join("a")
    for number in range(2):
        doomed = join(f"doomed-{number}")
        assert doomed.claim({"a": 7}, 0)
        assert doomed.claim({"a": 7}, 1)  # which is the same death
        assert survivor.look().measuring
        survivor.wait(60)
        look = survivor.look()
        assert look.orphans == (({"a": 7},) if number == 0 else ())
    assert look.busy == {"a=7"}
    assert not look.measuring


def test_a_worker_that_beats_is_never_taken_for_dead(join: Join) -> None:
    watching, slow = join("a"), join("b")
    assert slow.claim({"a": 2}, 0)
    until = time.monotonic() + 2 * GRACE_SECONDS
    while time.monotonic() < until:
        slow.peers.beat()
        assert watching.look().orphans == ()
        time.sleep(GRACE_SECONDS / 10)


def test_a_worker_that_was_taken_for_dead_hands_in_its_trial_unless_another_has_it(join: Join) -> None:
    watching, slow = join("a"), join("b")
    for settings in ({"a": 2}, {"a": 3}):
        claimed = claim(slow, settings)
        assert watching.look().measuring
        watching.wait(60)
        assert settings in watching.look().orphans
        if settings == {"a": 3}:
            watching.peers.beat()
            taken_over = claim(watching, settings)
        slow.finish(claimed, trial_of(settings))
        slow.peers.beat()
        assert [trial.settings for trial in watching.look().trials] == ([{"a": 2}] if settings == {"a": 2} else [])
    watching.finish(taken_over, trial_of({"a": 3}))
    assert [trial.settings for trial in slow.look().trials] == [{"a": 3}]


def test_who_leaves_gives_up_at_once_what_it_measures(join: Join) -> None:
    leaving, staying = join("a"), join("b")
    assert leaving.claim({"a": 2}, 0)
    leaving.leave()
    assert staying.look().orphans == ({"a": 2},)
    assert staying.peers.first_live() is None


def test_the_first_live_worker_is_asked_whether_it_lives(join: Join, storage: str) -> None:
    name = f"first-{uuid.uuid4().hex}"
    worker = start(
        "study = SearchStudy(open_storage(storage), name, 'began')\n"
        "while True:\n    study.peers.beat(); print('alive', flush=True); time.sleep(0.2)",
        storage,
        name,
    )
    assert worker.stdout is not None and worker.stdout.readline() == "alive\n"
    second, third = join("b", name), join("c", name)
    assert second.peers.first_live() == "began"
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    assert second.peers.first_live() is None
    second.peers.show_judged({"a": 2})
    second.peers.beat()
    assert third.peers.judged_by({"a": 2}) == "b"
    assert third.peers.judged_by({"a": 3}) is None
    assert second.peers.judged_by({"a": 2}) is None  # by another


def test_all_start_from_what_the_first_found(join: Join) -> None:
    first, second = join(), join()
    assert first.head() is None
    assert first.begin(HEAD) == HEAD
    other = StudyHead(STUDY_SCHEMA, BASIS, Diagnosis((), Profile(0.2, None, {}, (), {}, 0, 0, 0)))
    assert second.begin(other) == HEAD
    assert join().head() == HEAD
    assert second.look().trials == ()


def test_a_difference_is_named() -> None:
    def other(**changes: object) -> str | None:
        import msgspec

        return BASIS.difference_from(msgspec.structs.replace(BASIS, **changes))

    assert other() is None
    assert other(fingerprint={"CPU": "b"}) == "CPU a, here b"
    assert other(autoaccel="1") == "autoaccel 0, here 1"
    assert "another training" in (other(workload_sha256="ba5") or "")
    assert other(baseline_settings={"a": 2}) == "baseline a=1, here a=2"
    assert other(open={"a": (1, 2, 3)}) == "another search space: a=1|2, here 1|2|3"
    hashes = {
        BASIS.short_hash,
        StudyBasis("0", "f00", "build", (), {"CPU": "b"}, {"a": 1}, {"a": (1, 2)}, {}).short_hash,
    }
    assert len(hashes) == 2


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("study.txt", "must be a path that ends in .journal or .log"),
        ("/no/such/folder/study.journal", "cannot be opened"),
        ("sqlite:////no/such/folder/study.db", "unable to open database file"),
        ("mariadb+nothing://user:secret@host/name", "autoaccel[storage]"),
        ("postgresql://user:secret@127.0.0.1:9/name", "cannot be opened"),
    ],
)
def test_a_storage_that_cannot_be_had_is_one_clear_error(where: str, message: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        open_storage(where)
    assert message in str(caught.value) or "autoaccel[storage]" in str(caught.value)  # the driver is an extra
    assert "secret" not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_storage_that_vanishes_is_told_in_one_sentence(tmp_path: Path) -> None:
    study = SearchStudy(open_storage(f"sqlite:///{tmp_path / 'study.db'}"), "study", "a")
    (tmp_path / "study.db").write_bytes(b"no database" * 1000)
    with pytest.raises(AutoaccelError, match="cannot be reached"):
        study.look()
