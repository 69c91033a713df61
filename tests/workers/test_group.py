"""Ranks as the tuner sees them: real processes that meet over gloo, agree on gradients, fail, and leave nothing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import torch

from autoaccel.records.machine import Machine
from autoaccel.records.messages import Failure, GiveTurn, Measure, Profiled, TakeProfile, Train, TrainResult, Turn
from autoaccel.records.settings import Settings
from autoaccel.runs.workloads import find_workload
from autoaccel.space.knobs import KnobContext
from autoaccel.workers.group import WorkerGroup
from autoaccel.workers.measuring import Measuring
from autoaccel.workers.starter import WorkerStarter
from tests.cases import rest_is_long
from tests.shared_servers import SharedServer

WriteModel = Callable[..., Path]
SECONDS = 300.0

SGD = """
def build_sgd():
    # 50 samples in batches of 16: the last has 2, so that of three ranks one has none: they count all the same as 50.
    data = TensorDataset(INPUTS[:50], TARGETS[:50])
    return build(train_data=data, eval_data=data, optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.5))
"""


@pytest.fixture
def starter_for(
    tmp_path: Path, machine: Machine, function_server: SharedServer
) -> Iterator[Callable[..., WorkerStarter]]:
    """Return a function that gives the starter for a model file and an entry; all its workers are killed in the end."""
    starters: list[WorkerStarter] = []

    def start(model: Path, entry: str = "build") -> WorkerStarter:
        folder = tmp_path / "a run"  # with a space
        folder.mkdir(exist_ok=True)
        starter = function_server.serve(WorkerStarter(folder, find_workload(f"{model}:{entry}")))
        starters.append(starter.at(KnobContext(_on_this_computer(machine))))
        return starters[-1]

    yield start
    for starter in starters:
        starter.__exit__()


def _on_this_computer(machine: Machine) -> Machine:
    import msgspec

    from autoaccel.machine.detect import detect_machine

    return msgspec.structs.replace(detect_machine(), torch=machine.torch)


def trained(starter: WorkerStarter, settings: Settings, save_path: Path) -> tuple[TrainResult, dict[str, torch.Tensor]]:
    task = Train(seeds=(0,), save_path=str(save_path))
    answer = starter.ask(task, settings, "train", TrainResult, SECONDS)
    assert isinstance(answer, TrainResult), answer
    return answer, torch.load(save_path)


@pytest.mark.end_to_end
@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.long), 3])
def test_ranks_that_split_the_batch_train_as_one_process_does(
    ranks: int, write_model: WriteModel, starter_for: Callable[..., WorkerStarter], tmp_path: Path
) -> None:
    starter = starter_for(write_model(SGD), "build_sgd")
    alone, weights = trained(starter, {}, tmp_path / "alone.pt")
    together, same = trained(starter, {"parallel.world_size": ranks}, tmp_path / "together.pt")
    assert (together.steps, together.samples) == (alone.steps, alone.samples)
    for name, tensor in weights.items():
        torch.testing.assert_close(same[name], tensor, rtol=1e-4, atol=1e-6)
    assert together.losses == pytest.approx(alone.losses, rel=1e-4)
    assert together.metrics == alone.metrics


@pytest.mark.long
@pytest.mark.end_to_end
def test_ranks_that_keep_the_batch_make_fewer_steps(
    write_model: WriteModel, starter_for: Callable[..., WorkerStarter], tmp_path: Path
) -> None:
    starter = starter_for(write_model())
    settings: Settings = {"parallel.world_size": 2, "parallel.batch": "keep", "parallel.lr_rule": "linear"}
    answer, _ = trained(starter, settings, tmp_path / "kept.pt")
    assert (answer.steps, answer.samples) == (3 * 3, 3 * 72)  # batches of 32 of 72 samples
    measuring = starter.start_measuring(settings, "keep", SECONDS)
    assert isinstance(measuring, Measuring), measuring
    measuring.take_turn(GiveTurn(0.05), SECONDS)
    assert measuring.batch_factor == 2
    assert measuring.measurement.learned["parallel.lr_rule"] == "steps are made with 2 times the learning rate"


def stops(process: psutil.Process) -> bool:
    """Whether a process that has been told to stop stands still; the kernel may take a moment."""
    for _ in range(500):
        if process.status() == psutil.STATUS_STOPPED:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.end_to_end
def test_ranks_take_turns_and_stand_still_between_them(
    write_model: WriteModel, starter_for: Callable[..., WorkerStarter]
) -> None:
    starter = starter_for(write_model())
    settings: Settings = {
        "parallel.world_size": 2, "threads.intra_op": 2, "optimizer.accumulation": 2, "parallel.sync": "last",
        "parallel.compression": "bfloat16", "parallel.backend": "gloo", "threads.affinity": "none",
    }  # fmt: skip
    measuring = starter.start_measuring(settings, "turns", SECONDS)
    assert isinstance(measuring, Measuring), measuring
    processes = [psutil.Process(worker._process.pid) for worker in starter._started]
    assert all(stops(process) for process in processes)
    for _ in range(3):
        turn = measuring.take_turn(GiveTurn(0.05), SECONDS)
        assert isinstance(turn, Turn) and len(turn.step_seconds) >= 3
    learned = measuring.measurement.learned
    assert learned["threads.intra_op"] == "torch uses 1 threads"
    assert learned["parallel.world_size"] == "2 ranks all-reduce gradients"
    assert learned["parallel.sync"] == "ranks all-reduce after the last of 2 backward passes"
    assert learned["parallel.compression"].endswith("sent as bfloat16")
    assert learned["parallel.backend"] == "over gloo"
    if len(os.sched_getaffinity(0)) > 1:
        first, second = (process.cpu_affinity() for process in processes)
        assert not set(first) & set(second)
    measuring.close()
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)
    assert not list((starter._logs).glob("rendezvous-*"))


BROKEN = """
import signal
import torch.distributed as dist

def fail_in(how, ranks=(1,)):
    def step(model, batch):
        if dist.is_initialized() and dist.get_rank() in ranks:
            how()
        inputs, target = batch
        return nn.functional.cross_entropy(model(inputs), target)
    return build(loss=None, step=step)

def raising():
    def how():
        raise RuntimeError("the second rank has had enough")
    return fail_in(how)

def killed():
    return fail_in(lambda: os.kill(os.getpid(), signal.SIGKILL))

def exiting():
    return fail_in(lambda: sys.exit(7))
"""


@pytest.mark.end_to_end
@pytest.mark.parametrize(
    ("entry", "kind", "said"),
    rest_is_long(
        [
            ("raising", "raised", "the second rank has had enough"),
            ("killed", "memory", "killed (SIGKILL)"),
            ("exiting", "exited", "exit(7)"),
        ]
    ),
)
def test_the_rank_that_is_to_blame_is_named(
    entry: str, kind: str, said: str, write_model: WriteModel, starter_for: Callable[..., WorkerStarter]
) -> None:
    starter = starter_for(write_model(BROKEN), entry)
    answer = starter.ask(Train(seeds=(0,)), {"parallel.world_size": 2}, "train", TrainResult, SECONDS)
    assert isinstance(answer, Failure)
    assert answer.kind == kind
    assert answer.message.startswith("rank 1: ") and said in answer.message
    if entry == "raising":
        assert "in how" in answer.traceback


@pytest.mark.long
@pytest.mark.end_to_end
def test_what_all_ranks_say_is_the_reason_even_if_it_sounds_like_anothers_fault(
    write_model: WriteModel, starter_for: Callable[..., WorkerStarter]
) -> None:
    """An error of torch's own often names a file of c10d; that its ranks end after it is no reason."""
    code = (
        BROKEN
        + """
def sounding():
    return fail_in(how_it_sounds, ranks=(0, 1))

def how_it_sounds():
    raise RuntimeError("expected hooks at torch/csrc/distributed/c10d/reducer.cpp")
"""
    )
    starter = starter_for(write_model(code), "sounding")
    answer = starter.ask(Train(seeds=(0,)), {"parallel.world_size": 2}, "train", TrainResult, SECONDS)
    assert isinstance(answer, Failure)
    assert answer.kind == "raised"
    assert "expected hooks" in answer.message
    assert "how_it_sounds" in answer.traceback


@pytest.mark.long
@pytest.mark.end_to_end
def test_a_leader_that_is_killed_ends_all(write_model: WriteModel, starter_for: Callable[..., WorkerStarter]) -> None:
    starter = starter_for(write_model())
    group = starter.start(Measure(), {"parallel.world_size": 2}, "killed")
    assert isinstance(group, WorkerGroup)
    group.receive(SECONDS)
    processes = [psutil.Process(worker._process.pid) for worker in starter._started]
    os.kill(processes[0].pid, signal.SIGKILL)
    answer = group.receive(SECONDS)
    assert isinstance(answer, Failure) and answer.kind == "memory"
    group.close()
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)


@pytest.mark.long
@pytest.mark.end_to_end
def test_a_profile_is_of_one_process(write_model: WriteModel, starter_for: Callable[..., WorkerStarter]) -> None:
    starter = starter_for(write_model())
    settings: Settings = {"parallel.world_size": 2, "parallel.compression": "bfloat16"}
    answer = starter.ask(TakeProfile(seconds=0.2), settings, "profile", Profiled, SECONDS)
    assert isinstance(answer, Profiled), answer
    assert "all-reduce" not in answer.profile.phases


@pytest.mark.long
def test_ranks_that_were_stopped_while_they_started_go_on(
    write_model: WriteModel, starter_for: Callable[..., WorkerStarter]
) -> None:
    starter = starter_for(write_model())
    starter._overlapping._alone_seconds[False] = 0.01  # all that start side by side are slow
    sides: dict[str, Settings] = {"one": {}, "two ranks": {"parallel.world_size": 2}}
    for side in starter.start_all_measuring(Measure(), sides, SECONDS):
        assert isinstance(side, Measuring), side
        assert isinstance(side.take_turn(GiveTurn(0.05), SECONDS), Turn)
        side.close()
    assert starter._overlapping._slowed_down == {False}
