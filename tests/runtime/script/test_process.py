"""Scripts that do to their process what a program may: they are measured as they run under plain Python."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import msgspec
import pytest

from autoaccel.records.machine import Machine
from autoaccel.records.messages import Failure, GiveTurn, Measure, Turn
from autoaccel.records.workload import Script, TrainingFacts
from autoaccel.space.knobs import KnobContext, baseline_settings
from autoaccel.workers.measuring import Measuring
from autoaccel.workers.starter import WorkerStarter
from tests.runtime.script.asking import SECONDS, describe

KEPT = """
import os, sys, threading
from autoaccel.runtime.script.process import keep_process
reading, writing = os.pipe()
keep_process(writing)
os.closerange(3, 4096)
for descriptor in range(3, 64):
    try:
        os.close(descriptor)
    except OSError:
        pass
os.fstat(writing)
try:
    os.fstat(reading)
except OSError:
    print("others are closed", flush=True)
child = os.fork()
if child == 0:
    os.close(writing)
    try:
        os.fstat(writing)
    except OSError:
        os._exit(7)  # of a child ends it
print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
try:
    os._exit(5)
except SystemExit as end:
    print(end.code, flush=True)
threading.Thread(target=os._exit, args=(9,)).start()
threading.Event().wait()
"""


def test_a_script_s_process_outlives_what_ends_the_script() -> None:
    done = subprocess.run([sys.executable, "-c", KEPT], capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines() == ["others are closed", "7", "5"], done.stderr
    assert done.returncode == 9  # in another thread nothing could be raised


def measuring(starter: WorkerStarter, facts: TrainingFacts, machine: Machine) -> Measuring | Failure:
    context = KnobContext(machine, facts)
    return starter.at(context).start_all_measuring(Measure(), {"trial": baseline_settings(context)}, SECONDS)[0]


@pytest.mark.long
def test_a_rude_script_is_measured_beyond_its_end(
    script: Callable[..., Script], starter_of: Callable[[Script], WorkerStarter], machine: Machine
) -> None:
    """Each process that it forked ran the script once more, and all waited for ever; os._exit() ended the trial."""
    starter = starter_of(script("rude.py"))
    facts = describe(starter)
    assert isinstance(facts, TrainingFacts), facts
    assert facts.planned_steps == 40
    trial = measuring(starter, facts, machine)
    assert isinstance(trial, Measuring), trial
    turn = trial.take_turn(GiveTurn(0.0, min_steps=100), SECONDS)
    trial.close()
    assert isinstance(turn, Turn), turn
    log = (starter._logs / "trial.log").read_text()
    assert log.count("epoch 3, child ended with 3") >= 2  # in each of its runs
    assert "ValueError: of a child" in log and "autoaccel/runtime" not in log


@pytest.mark.long
def test_a_script_that_ends_after_a_few_steps_of_many_has_failed(
    script: Callable[..., Script],
    starter_of: Callable[[Script], WorkerStarter],
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was run again and again, and its settings could win."""
    starter = starter_of(script("rude.py"))
    facts = describe(starter)
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    planned = msgspec.structs.replace(facts.script, planned_steps=400)
    monkeypatch.setenv("GOOD_ENOUGH", "100")
    trial = measuring(starter, msgspec.structs.replace(facts, script=planned), machine)
    assert isinstance(trial, Failure)
    assert (trial.kind, trial.message) == ("exited", "it ended after 1 of 400 planned steps")
