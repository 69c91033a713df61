"""Scripts are profiled as they train: phases told by hooks, operators recorded, conditions read off their parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from autoaccel.records.machine import Machine
from autoaccel.records.messages import Profiled, TakeProfile
from autoaccel.records.workload import Script, TrainingFacts
from autoaccel.space.knobs import KnobContext, baseline_settings
from autoaccel.workers.profiling import ask_profile
from autoaccel.workers.starter import WorkerStarter
from tests.runtime.script.asking import SECONDS, describe
from tests.runtime.script.test_hard_cases import in_folder


def profiled(starter: WorkerStarter, machine: Machine) -> Profiled:
    """Return the profile of a script, of which all must hold that holds of any."""
    facts = describe(starter)
    assert isinstance(facts, TrainingFacts), facts
    context = KnobContext(machine, facts)
    found = ask_profile(starter.at(context), TakeProfile(0.3), baseline_settings(context), SECONDS)
    assert isinstance(found, Profiled), found
    assert sum(found.profile.phases.values()) == pytest.approx(1.0)
    assert found.profile.failed == {} and found.conditions is not None
    assert facts.script is not None
    assert found.profile.parameters == (facts.parameters if facts.script.calls_models else 0)
    return found


@pytest.mark.long
def test_a_script_that_waits_for_its_data_is_seen_to(
    folder: Path, forking_starter_of: Callable[[Script], WorkerStarter], machine: Machine
) -> None:
    found = profiled(forking_starter_of(in_folder("slow_loader.py", folder, ())), machine)
    assert found.profile.phases["data wait"] > 0.9
    assert found.conditions is not None and found.conditions.loader is not None
    assert found.conditions.loader.workers == 0


@pytest.mark.parametrize(
    ("file", "optimizer", "samples"),
    [
        ("mlp.py", "AdamW", 32),  # is run several times: each time its model is another
        pytest.param("gan.py", "Adam", 64, marks=pytest.mark.long),
        pytest.param("lbfgs.py", "LBFGS", 7, marks=pytest.mark.long),  # closures, no loader
        pytest.param("accumulation.py", "AdamW", 64, marks=pytest.mark.long),  # four batches of 16
    ],
)
def test_phases_and_parts_of_a_script_are_told(
    file: str,
    optimizer: str,
    samples: int,
    folder: Path,
    forking_starter_of: Callable[[Script], WorkerStarter],
    machine: Machine,
) -> None:
    found = profiled(forking_starter_of(in_folder(file, folder, ())), machine)
    phases = found.profile.phases
    assert all(phases[name] > 0.005 for name in ("forward", "loss", "backward", "optimizer")), phases
    assert any(operator.group == "matmul" for operator in found.profile.operators)
    assert found.conditions is not None
    assert found.conditions.optimizer.kind == optimizer
    assert found.conditions.batch_samples == samples
    assert found.conditions.gradients and not found.conditions.autocast


@pytest.mark.long
def test_forward_passes_that_are_not_heard_are_told_though_gradients_are_cleared_after_them(
    folder: Path, forking_starter_of: Callable[[Script], WorkerStarter], machine: Machine
) -> None:
    """They were said to be time spent after the update, on the schedule and the like."""
    phases = profiled(forking_starter_of(in_folder("layer_by_layer.py", folder, ())), machine).profile.phases
    assert phases["forward"] > 0.1 > phases["other"]


@pytest.mark.long
def test_a_compiled_script_that_begins_anew_is_profiled_as_well(
    folder: Path, forking_starter_of: Callable[[Script], WorkerStarter], machine: Machine
) -> None:
    found = profiled(forking_starter_of(in_folder("compiled.py", folder, ())), machine)
    assert found.profile.phases["loss"] == 0.0  # nobody looks where it begins
    assert found.profile.phases["forward"] > 0.05
