"""Workers as the tuner sees them: real processes that answer, fail, crash, hang, and leave nothing behind."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from autoaccel.records.messages import (
    Built,
    Describe,
    Described,
    Failure,
    GiveTurn,
    Measure,
    Probe,
    Probed,
    Profiled,
    TakeProfile,
    Train,
    TrainResult,
    Turn,
    WarmUp,
)
from autoaccel.records.settings import Settings
from autoaccel.runs.workloads import find_workload
from autoaccel.space.knobs import KnobContext
from autoaccel.workers import worker as launch_worker
from autoaccel.workers.environment import worker_environment
from autoaccel.workers.measuring import Measuring
from autoaccel.workers.starter import WorkerStarter
from autoaccel.workers.worker import Worker
from tests.cases import rest_is_long
from tests.shared_servers import SharedServer
from tests.workers.test_group import stops

WriteModel = Callable[..., Path]
StarterOf = Callable[[Path], WorkerStarter]
SECONDS = 300.0
"""For what takes one, or on a busy machine thirty."""


@pytest.fixture
def own_starter_for(tmp_path: Path) -> Iterator[StarterOf]:
    """Return a function that gives the starter for a model file; all its workers are killed in the end."""
    starters = []

    def start(model: Path) -> WorkerStarter:
        folder = tmp_path / "run"
        folder.mkdir()
        starters.append(WorkerStarter(folder, find_workload(str(model))))
        return starters[-1]

    yield start
    for starter in starters:
        starter.__exit__()


@pytest.fixture
def starter_for(own_starter_for: StarterOf, function_server: SharedServer) -> StarterOf:
    """Return that function; what forks the workers has imported torch before."""
    return lambda model: function_server.serve(own_starter_for(model))


def described(starter: WorkerStarter, timeout_seconds: float = SECONDS) -> Described | Failure:
    return starter.ask(Describe(), {}, "describe", Described, timeout_seconds)


def failure_of(answer: object) -> Failure:
    assert isinstance(answer, Failure)
    return answer


def test_a_training_is_described(write_model: WriteModel, starter_for: StarterOf) -> None:
    answer = described(starter_for(write_model()))
    assert isinstance(answer, Described)
    facts = answer.facts
    assert (facts.metric, facts.direction, facts.epochs, facts.batch_size) == ("accuracy", "maximize", 3, 16)
    assert (facts.steps_per_epoch, facts.planned_steps) == (5, 15)
    assert facts.parameters == 8 * 16 + 16 + 16 * 2 + 2
    assert facts.optimizer_has_fused
    assert not (facts.has_image_convolutions or facts.has_convolutions)


WATCHED = """
import gc

plain = build

def build():
    watchers = [found for found in gc.get_objects() if type(found).__name__ == "Imports"]
    return plain(evaluate=lambda model, loader: float(len(watchers)), direction="maximize")
"""


def test_nothing_watches_what_a_measured_training_does(write_model: WriteModel, starter_for: StarterOf) -> None:
    """An audit hook, which nobody can take away, made each look at a stack frame three times as slow."""
    starter = starter_for(write_model(WATCHED))
    assert isinstance(described(starter), Described)  # that one is watched
    answer = starter.ask(Train(seeds=(0,)), {}, "train", TrainResult, SECONDS)
    assert isinstance(answer, TrainResult)
    assert answer.metrics == (0.0,)


def test_a_raising_build_shows_the_users_own_traceback(write_model: WriteModel, starter_for: StarterOf) -> None:
    failure = failure_of(described(starter_for(write_model("def build():\n    return missing_name\n"))))
    assert failure.kind == "raised"
    assert failure.message == "NameError: name 'missing_name' is not defined"
    assert "model.py" in failure.traceback
    assert "return missing_name" in failure.traceback
    assert "loading.py" not in failure.traceback  # none of autoaccel's own frames


def test_a_file_that_does_not_parse_shows_where(write_model: WriteModel, starter_for: StarterOf) -> None:
    failure = failure_of(described(starter_for(write_model("def build(:\n"))))
    assert failure.message.startswith("SyntaxError")
    assert "def build(:" in failure.traceback


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    rest_is_long(
        [
            ("sys.exit(3)", "exited", "ended its own process with exit(3)"),
            ("os._exit(0)", "exited", "exited with status 0"),
            ("os.kill(os.getpid(), 9)", "memory", "SIGKILL"),
            ("raise MemoryError('no')", "memory", "MemoryError: no"),
            ("return 5", "invalid", "must return an autoaccel.Training, got int"),
            ("return autoaccel.Training", "invalid", "got a class, not an instance"),
        ],
        3,
    ),
)
def test_a_build_that_does_not_return_is_told_apart(
    write_model: WriteModel, starter_for: StarterOf, code: str, kind: str, message: str
) -> None:
    failure = failure_of(described(starter_for(write_model(f"def build():\n    {code}\n"))))
    assert failure.kind == kind
    assert message in failure.message


def test_a_crash_in_native_code_names_the_line(write_model: WriteModel, starter_for: StarterOf) -> None:
    code = "import ctypes\n\n\ndef build():\n    ctypes.string_at(0)\n"
    failure = failure_of(described(starter_for(write_model(code))))
    assert failure.kind == "crashed"
    assert "SIGSEGV" in failure.message
    assert "in build" in failure.log_tail


def test_a_hanging_build_is_stopped_and_says_where(
    write_model: WriteModel, starter_for: StarterOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch_worker, "_LAST_WORDS_SECONDS", 3.0)  # on a busy machine it needs more than half of one
    code = f"import time\n\n\ndef build():\n    open({str(tmp_path / 'begun')!r}, 'w').close()\n    time.sleep(3600)\n"
    with starter_for(write_model(code)).start(Describe(), {}, "describe") as worker:
        while not (tmp_path / "begun").exists():
            assert not worker.is_gone
            time.sleep(0.01)
        start = time.perf_counter()
        failure = failure_of(worker.receive(1.0))
    assert time.perf_counter() - start < 1800  # build() sleeps twice as long
    assert failure.kind == "hung"
    assert "in build" in failure.log_tail


def test_no_answer_is_waited_for_without_time(write_model: WriteModel, starter_for: StarterOf) -> None:
    starter = starter_for(write_model("import time\n\n\ndef build():\n    time.sleep(600)\n"))
    assert failure_of(described(starter, timeout_seconds=-4.0)).message == "no time was left for an answer"


@pytest.mark.long
def test_megabytes_of_output_harm_nothing(write_model: WriteModel, starter_for: StarterOf, tmp_path: Path) -> None:
    code = """
    plain = build

    def build():
        for number in range(100_000):
            print('{"type": "described"}', number, "x" * 100)
        return plain()
    """
    assert isinstance(described(starter_for(write_model(code))), Described)
    log = (tmp_path / "run" / "logs" / "describe.log").read_text()
    assert len(log) < 300_000
    assert "bytes omitted" in log
    assert " 99999 x" in log


@pytest.mark.long
def test_modules_of_the_users_folder_do_not_shadow_the_library(
    write_model: WriteModel, starter_for: StarterOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "random", "statistics", "autoaccel"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('shadowed')\n")
    (tmp_path / "mine.py").write_text("NUMBER = 7\n")
    monkeypatch.chdir(tmp_path)
    starter = starter_for(write_model("import mine\n\nassert mine.NUMBER == 7\n"))
    assert isinstance(described(starter), Described)


def test_arguments_and_other_entries_reach_the_file(write_model: WriteModel, starter_for: StarterOf) -> None:
    path = write_model("def other():\n    assert sys.argv[1:] == ['--width', '3']\n    return build(epochs=9)\n")
    starter = starter_for(path)
    starter.workload = find_workload(f"{path}:other", ["--width", "3"])
    answer = described(starter)
    assert isinstance(answer, Described)
    assert answer.facts.epochs == 9


def test_a_missing_entry_names_those_there_are(write_model: WriteModel, starter_for: StarterOf) -> None:
    path = write_model("")
    starter = starter_for(path)
    starter.workload = find_workload(f"{path}:train")
    failure = failure_of(described(starter))
    assert failure.kind == "invalid"
    assert "must define a function train()" in failure.message
    assert "model.py:NAME" in failure.message
    assert "build" in failure.message


def test_torch_is_probed(starter_for: StarterOf, write_model: WriteModel) -> None:
    answer = starter_for(write_model()).ask(Probe(), {}, "probe", Probed, SECONDS)
    assert isinstance(answer, Probed)
    import torch

    assert answer.facts.version == torch.__version__
    assert "bfloat16" in answer.facts.autocast
    assert answer.facts.product_speedups.keys() == set(answer.facts.autocast)
    assert all(speedup > 0 for speedup in answer.facts.product_speedups.values())


def test_a_profile_accounts_for_the_whole_step(starter_for: StarterOf, write_model: WriteModel) -> None:
    answer = starter_for(write_model()).ask(TakeProfile(0.3), {}, "profile", Profiled, SECONDS)
    assert isinstance(answer, Profiled)
    profile = answer.profile
    assert sum(profile.phases.values()) == pytest.approx(1.0)
    assert sum(profile.groups.values()) == pytest.approx(1.0)
    assert profile.groups["matmul"] > 0
    assert {operator.name for operator in profile.operators} >= {"aten::addmm"}
    assert profile.samples_per_second is not None
    assert profile.samples_per_second > 0


def test_training_from_a_seed_is_repeatable_and_learns(starter_for: StarterOf, write_model: WriteModel) -> None:
    starter = starter_for(write_model())
    settings: Settings = {"threads.intra_op": 1}
    first = starter.ask(Train(seeds=(0, 1, 0)), settings, "train", TrainResult, SECONDS)
    assert isinstance(first, TrainResult)
    assert (first.steps, first.samples) == (15, 3 * 72)
    assert first.metrics[0] == first.metrics[2]
    assert first.losses[0] == first.losses[2] != first.losses[1]
    assert min(first.metrics) > 0.6


@pytest.mark.long
def test_exact_settings_train_to_the_same_numbers(starter_for: StarterOf, write_model: WriteModel) -> None:
    """Loader workers change neither the order of the data nor the numbers that the model draws."""
    code = "plain = build\n\n\ndef build():\n    return plain(model=nn.Sequential(nn.Dropout(0.3), nn.Linear(8, 2)))\n"
    starter = starter_for(write_model(code))
    losses = []
    for workers in (0, 2):
        settings: Settings = {"threads.intra_op": 1, "loader.workers": workers}
        answer = starter.ask(Train(seeds=(5,)), settings, f"w{workers}", TrainResult, SECONDS)
        assert isinstance(answer, TrainResult)
        losses.append(answer.losses)
    assert losses[0] == losses[1]


def measuring(starter: WorkerStarter, settings: Settings) -> Measuring:
    worker = starter.start_measuring(settings, "measure", SECONDS)
    assert isinstance(worker, Measuring), worker
    return worker


def test_turns_are_measured_and_pauses_are_still(starter_for: StarterOf, write_model: WriteModel) -> None:
    """Between its turns a paused training, its loader workers included, uses no processor time."""
    starter = starter_for(write_model())
    worker = measuring(starter, {"threads.intra_op": 1, "loader.workers": 2})
    turn = worker.take_turn(GiveTurn(0.2), SECONDS)
    assert isinstance(turn, Turn)
    assert sum(turn.step_seconds) >= 0.15
    assert turn.peak_bytes > 1 << 20
    assert turn.epoch_starts  # 5 steps an epoch: some began within the turn
    family = [psutil.Process(starter._started[0]._process.pid)]
    family += family[0].children(recursive=True)
    assert len(family) == 3
    assert all(stops(process) for process in family)
    assert isinstance(worker.take_turn(GiveTurn(0.05), SECONDS), Turn)
    assert worker.measurement.startup_seconds > 0.1
    assert worker.measurement.learned["threads.intra_op"] == "torch uses 1 threads"


@pytest.mark.long
def test_of_those_that_start_together_one_warms_up_at_a_time(
    starter_for: StarterOf, write_model: WriteModel, tmp_path: Path
) -> None:
    code = f"""
    import os

    def step(model, batch):
        with open({str(tmp_path / "steps")!r}, "a") as file:
            print(os.getpid(), file=file)
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    plain = build

    def build():
        return plain(loss=None, step=step)
    """
    starter = starter_for(write_model(code))
    settings: dict[str, Settings] = {"one": {"threads.intra_op": 1}, "other": {"threads.intra_op": 2}}
    measuring(starter, settings["one"]).close()  # until a start was seen alone, none overlap
    (tmp_path / "steps").unlink()
    both = starter.start_all_measuring(Measure(), settings, SECONDS)
    assert all(isinstance(side, Measuring) for side in both), both
    pids = (tmp_path / "steps").read_text().split()
    changes = sum(one != other for one, other in itertools.pairwise(pids))
    assert len(set(pids)) == 2
    assert changes == 1


@pytest.mark.long
def test_starts_that_slow_each_other_down_no_longer_overlap(
    starter_for: StarterOf, write_model: WriteModel, tmp_path: Path
) -> None:
    """Each of ten pairs took 29 s to start, of a training that starts in 4 s alone."""
    code = f"""
    import fcntl, time

    plain = build

    def note(what):
        with open({str(tmp_path / "builds")!r}, "a") as file:
            print(what, file=file)

    def build():
        note("begins")
        with open({str(tmp_path / "building")!r}, "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                time.sleep(1.0)
            except BlockingIOError:
                time.sleep(5.0)
        note("ends")
        return plain()
    """
    starter = starter_for(write_model(code))
    measuring(starter, {}).close()
    starter._overlapping._alone_seconds[False] = 2.0  # a slow machine took longer
    counted, began = sum(starter.spent_on.values()), time.perf_counter()
    for name in ("first", "second"):
        sides: dict[str, Settings] = {f"{name} {side}": {} for side in ("one", "other")}
        for side in starter.start_all_measuring(Measure(), sides, SECONDS):
            assert isinstance(side, Measuring), side
            side.close()
    alone = ["begins", "ends"]
    side_by_side = ["begins", "begins", "ends", "ends"]
    assert (tmp_path / "builds").read_text().split() == [*alone, *side_by_side, *alone, *alone]
    assert sum(starter.spent_on.values()) - counted <= time.perf_counter() - began  # no second is counted twice


@pytest.mark.long
def test_starts_that_keep_each_other_from_going_on_go_on_one_by_one(
    starter_for: StarterOf, write_model: WriteModel, tmp_path: Path
) -> None:
    """Of a training that starts in 3 s alone, two starts side by side took 119 s. Here they would never end."""
    code = f"""
    import os, pathlib, time

    plain = build
    alive = pathlib.Path({str(tmp_path / "alive")!r})

    def build():
        mine, left = alive / str(os.getpid()), 10
        while left:
            mine.touch()
            time.sleep(0.05)
            ages = [time.time() - file.stat().st_mtime for file in alive.iterdir() if file != mine]
            left -= all(age > 0.3 for age in ages)
        return plain()
    """
    (tmp_path / "alive").mkdir()
    starter = starter_for(write_model(code))
    measuring(starter, {}).close()
    for side in starter.start_all_measuring(Measure(), {"one": {}, "other": {}}, SECONDS):
        assert isinstance(side, Measuring), side
        assert isinstance(side.take_turn(GiveTurn(0.05), SECONDS), Turn)
        side.close()


def test_nothing_survives_a_killed_worker(starter_for: StarterOf, write_model: WriteModel) -> None:
    starter = starter_for(write_model())
    worker = measuring(starter, {"loader.workers": 2})
    pid = starter._started[0]._process.pid
    family = psutil.Process(pid).children(recursive=True)
    assert len(family) == 2
    worker.close()
    assert not psutil.pid_exists(pid)
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in family)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_a_compilation_that_is_given_up_leaves_no_compiler_behind(
    starter_for: StarterOf, write_model: WriteModel
) -> None:
    """Inductor compiles in a pool of processes of its own, and those start the compiler."""
    worker = starter_for(write_model()).start(Measure(), {"compile.mode": "default"}, "compiles")
    assert isinstance(worker, Worker)
    family: list[psutil.Process] = []
    with worker:
        assert isinstance(worker.receive(SECONDS), Built)
        worker.tell(WarmUp())
        pid = worker._process.pid
        while not any(_name_of(process).startswith(("g++", "c++", "cc1plus")) for process in family):
            family = psutil.Process(pid).children(recursive=True)  # it fails if the worker has ended
            time.sleep(0.01)
    assert not [process for process in psutil.process_iter() if _group_of(process) == pid]
    assert not [process for process in family if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


def _name_of(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


def _group_of(process: psutil.Process) -> int | None:
    """Return the process group of a process; None if it has ended, even if nobody has reaped it."""
    try:
        return None if process.status() == psutil.STATUS_ZOMBIE else os.getpgid(process.pid)
    except (psutil.NoSuchProcess, ProcessLookupError):
        return None


def test_a_failure_in_a_turn_is_told(starter_for: StarterOf, write_model: WriteModel) -> None:
    code = """
    count = 0

    def step(model, batch):
        global count
        count += 1
        if count > 400:
            raise ValueError("enough")
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    plain = build

    def build():
        return plain(loss=None, step=step)
    """
    worker = measuring(starter_for(write_model(code)), {})
    failure = failure_of(worker.take_turn(GiveTurn(30.0), SECONDS))
    assert failure.message == "ValueError: enough"
    assert "in step" in failure.traceback


def test_workers_get_the_users_environment_and_the_tuned_variables(
    starter_for: StarterOf, write_model: WriteModel, monkeypatch: pytest.MonkeyPatch, context: KnobContext
) -> None:
    monkeypatch.setenv("MY_OWN", "kept")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    code = """
    assert os.environ["MY_OWN"] == "kept"
    assert os.environ["OMP_NUM_THREADS"] == "1", os.environ["OMP_NUM_THREADS"]
    assert os.getpgid(0) == os.getpid()
    """
    starter = starter_for(write_model(code))
    starter = starter.at(context)
    answer = starter.ask(Describe(), {"threads.intra_op": 1}, "describe", Described, SECONDS)
    assert isinstance(answer, Described), answer
    assert os.environ["OMP_NUM_THREADS"] == "7"


def test_what_the_user_preloads_stays_behind_what_settings_do() -> None:
    merged = worker_environment({"LD_PRELOAD": "/own.so", "A": "1"}, {"LD_PRELOAD": "/jemalloc.so"})
    assert (merged["LD_PRELOAD"], merged["A"]) == ("/jemalloc.so:/own.so", "1")
    assert "LD_PRELOAD" not in worker_environment({}, {})


@pytest.mark.long
def test_few_servers_wait_at_a_time(own_starter_for: StarterOf, write_model: WriteModel, context: KnobContext) -> None:
    """Each environment needs one of its own; the longest idle makes room."""
    starter = own_starter_for(write_model(""))
    starter = starter.at(context)
    for number, policy in enumerate(["unset", "active", "passive", "static", "dynamic", "guided"]):
        name = "threads.omp_wait_policy" if policy in ("active", "passive") else "threads.omp_schedule"
        answer = starter.ask(Describe(), {name: policy}, f"describe-{number}", Described, SECONDS)
        assert isinstance(answer, Described), answer
    assert len(list(starter._servers.running())) == 4
    assert len(list(starter._logs.glob("forkserver-*.log"))) == 6


def test_a_setting_that_does_nothing_is_a_failure(starter_for: StarterOf, write_model: WriteModel) -> None:
    """The step never calls the model itself, so there is nothing that torch.compile could capture."""
    code = """
    class Stepper(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(8, 2)

        def loss(self, batch):
            return nn.functional.cross_entropy(self.inner(batch[0]), batch[1])

    plain = build

    def build():
        return plain(model=Stepper(), loss=None, step=lambda model, batch: model.loss(batch),
                     evaluate=lambda model, loader: 0.0)
    """
    starter = starter_for(write_model(code))
    failure = failure_of(starter.start_measuring({"compile.mode": "default"}, "measure", SECONDS))
    assert failure.kind == "ineffective"
    assert "compile.mode did nothing" in failure.message


def test_what_cannot_be_pruned_is_ineffective_too(starter_for: StarterOf, write_model: WriteModel) -> None:
    code = """
    plain = build

    def build():
        return plain(model=nn.Linear(8, 2))
    """
    settings: Settings = {"model.sparsity": 0.5, "model.pruning_warmup": 0}
    failure = failure_of(starter_for(write_model(code)).start_measuring(settings, "measure", SECONDS))
    assert failure.kind == "ineffective", failure


def test_a_worker_dies_with_its_tuner(write_model: WriteModel, tmp_path: Path) -> None:
    """A tuner was killed in a container: stopped loader workers, adopted by its first process, stayed for ever."""
    model = write_model()
    (tmp_path / "run").mkdir()
    tuner_s = f"""
import sys, time
from pathlib import Path
from autoaccel.workers.starter import WorkerStarter
from autoaccel.runs.workloads import find_workload
starter = WorkerStarter(Path({str(tmp_path / "run")!r}), find_workload({str(model)!r}))
starter.start_measuring({{"loader.workers": 1}}, "m", 60.0, fresh=True)
print(starter._started[0]._process.pid, flush=True)
time.sleep(600)
"""
    # It adopts orphans, reaps none, and is of the tuner's session: as the first process of a container may be.
    program = f"""
import ctypes, os, sys, time
adopts_orphans = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(adopts_orphans, 1)
if os.fork():
    time.sleep(600)
os.setpgid(0, 0)
print(os.getpid(), flush=True)
exec({tuner_s!r})
"""
    first = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    tuner, pid = (int(first.stdout.readline()) for _ in range(2))
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    assert len(family) == 2
    os.kill(tuner, signal.SIGKILL)
    deadline = time.perf_counter() + 60
    while (alive := [process for process in family if _group_of(process)]) and time.perf_counter() < deadline:
        time.sleep(0.05)
    for process in [*alive, psutil.Process(first.pid)]:
        process.kill()
    first.wait()
    first.stdout.close()
    assert not alive
