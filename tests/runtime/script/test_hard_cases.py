"""Scripts as people write them, in tests/scripts: each is seen as it is, and trains as it does without us."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from autoaccel.records.machine import Machine
from autoaccel.records.messages import Failure, GiveTurn, Measure, Turn
from autoaccel.records.seen import ScriptFacts
from autoaccel.records.workload import Script, TrainingFacts
from autoaccel.space.knobs import KnobContext, baseline_settings
from autoaccel.workers import worker
from autoaccel.workers.measuring import Measuring
from autoaccel.workers.starter import WorkerStarter
from tests.cases import rest_is_long
from tests.runtime.script.asking import SECONDS, describe
from tests.runtime.script.cases import CASES, Case
from tests.runtime.script.conftest import SCRIPTS

_GRADIENTS_ONLY = {"functional.py"}
"""Scripts that never call backward()."""


@pytest.mark.long  # 10 s each
@pytest.mark.parametrize("case", CASES, ids=[" ".join((case.file, *case.arguments)) for case in CASES])
def test_a_script_is_seen_as_it_is_and_trains_as_it_does_without_us(
    case: Case, folder: Path, starter_of: Callable[[Script], WorkerStarter], machine: Machine
) -> None:
    script = in_folder(case.file, folder, case.arguments, case.stdin)
    before = listing(folder)
    starter = starter_of(script)
    found = describe(starter)
    assert isinstance(found, TrainingFacts), found
    assert found.script is not None
    check(found.script, case, Path(script.path))

    context = KnobContext(machine, found)
    trial = starter.at(context).start_all_measuring(Measure(), {"trial": baseline_settings(context)}, SECONDS)[0]
    assert isinstance(trial, Measuring), trial
    turn = trial.take_turn(GiveTurn(0.0, min_steps=case.steps), SECONDS)
    trial.close()
    assert isinstance(turn, Turn) and not turn.diverged
    assert listing(folder) == before
    plain = plain_lines(script, case.lines)
    for log in ("describe", "trial"):
        printed = (folder.parent / "run" / "logs" / f"{log}.log").read_text().splitlines()
        assert printed[: case.lines] == plain, log


def in_folder(file: str, folder: Path, arguments: tuple[str, ...], stdin: str = "") -> Script:
    """Return a script of tests/scripts in a folder of its own, with the files beside it if it has any."""
    own = SCRIPTS / file
    if own.parent == SCRIPTS:
        shutil.copy(own, folder)
    else:
        shutil.copytree(own.parent, folder, dirs_exist_ok=True)
    script = Script(str(folder / own.name), own.name, str(folder), "0" * 64, arguments)
    return msgspec.structs.replace(script, stdin=str(folder / stdin)) if stdin else script


def listing(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def plain_lines(script: Script, count: int) -> list[str]:
    """Return the first lines that a script prints under plain Python, in a copy of its folder."""
    own = Path(script.folder).parent / "plain"
    shutil.copytree(script.folder, own)
    with (
        Path(script.stdin or os.devnull).open() as stdin,
        subprocess.Popen(
            [sys.executable, script.program, *script.arguments],
            cwd=own,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": ""},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        lines: list[str] = []
        while len(lines) < count and (line := process.stdout.readline()):
            lines.append(line.rstrip("\n"))
        process.kill()
    return lines


def check(seen: ScriptFacts, case: Case, path: Path) -> None:
    lines = [
        (f"{file.name}:{number}", line)
        for file in path.parent.glob("*.py")
        for number, line in enumerate(file.read_text().splitlines(), 1)
    ]

    def where(part: str) -> str:
        return next(where for where, line in lines if part in line)

    models = {(kind, parameters, where(part)) for kind, parameters, part in case.models}
    assert {(one.kind, one.parameters, one.where) for one in seen.models} == models
    assert {(one.kind, one.where) for one in seen.optimizers} == {(kind, where(part)) for kind, part in case.optimizers}
    loaders = {
        feeds: [
            f"{k.dataset} {k.batch_size} {k.sampler}" for k in (one.key for one in seen.loaders if one.feeds == feeds)
        ]
        for feeds in (True, False)
    }
    assert loaders[True] == ([case.fed_by] if case.fed_by else [])
    assert loaders[False] in ([], [case.evaluated_on])  # it may not have come to it
    assert (seen.loader.batches if seen.loader else None) == case.batches
    assert seen.cycle == case.cycle
    assert (seen.steps_per_epoch, seen.planned_steps) == (case.per_epoch, case.planned), seen.planned_from
    assert bool(seen.evaluations) == case.evaluations
    assert seen.does == case.does
    assert seen.has_loss != (case.file in _GRADIENTS_ONLY)


@pytest.mark.parametrize(
    ("file", "reason"),
    rest_is_long(
        [
            ("lbfgs_once.py", "it makes a single update (LBFGS) and ends, so no step is made twice"),
            ("no_updates.py", "it has computed gradients 1,000 times without a step of any torch.optim optimizer"),
            (
                "stdin/reads_stdin.py",
                "JSONDecodeError: Expecting value: line 1 column 1 (char 0) (it has read standard input",
            ),
        ]
    ),
)
def test_a_script_that_cannot_be_measured_is_declined_with_the_reason(
    file: str, reason: str, folder: Path, forking_starter_of: Callable[[Script], WorkerStarter]
) -> None:
    script = in_folder(file, folder, ())
    before = listing(folder)
    found = describe(forking_starter_of(script))
    assert isinstance(found, Failure) and found.message.startswith(reason), found
    assert str(folder) in found.traceback or found.kind == "invalid"
    assert listing(folder) == before


LOGS_LOSSES = """
import torch

own = torch.autograd.backward

def backward(tensors, *args, **kwargs):
    print("LOSS", (tensors if isinstance(tensors, torch.Tensor) else tensors[0]).detach().double().sum().item().hex(),
          flush=True)
    return own(tensors, *args, **kwargs)

torch.autograd.backward = backward
"""
_LOSSES = 50
_SEEDED = [  # the others never train the same twice
    case for case in CASES if "seeds torch" in case.does and case.file not in _GRADIENTS_ONLY
]


@pytest.mark.long
@pytest.mark.parametrize("case", _SEEDED, ids=[" ".join((case.file, *case.arguments)) for case in _SEEDED])
def test_the_first_losses_are_bit_for_bit_those_of_plain_python(
    case: Case,
    folder: Path,
    starter_of: Callable[[Script], WorkerStarter],
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Under all defaults; the script itself writes them down, by a line before its first."""
    monkeypatch.setattr(worker, "_MAX_LOG_BYTES", 1 << 30)  # of a log the end is kept
    script = in_folder(case.file, folder, case.arguments, case.stdin)
    path = Path(script.path)
    (folder / "logs_losses.py").write_text(LOGS_LOSSES)
    path.write_text(f"import logs_losses\n{path.read_text()}")
    starter = starter_of(script)
    facts = describe(starter)
    assert isinstance(facts, TrainingFacts), facts
    context = KnobContext(machine, facts)
    trial = starter.at(context).start_all_measuring(Measure(), {"trial": baseline_settings(context)}, SECONDS)[0]
    assert isinstance(trial, Measuring), trial
    trial.take_turn(GiveTurn(0.0, min_steps=_LOSSES), SECONDS)
    trial.close()
    printed = (folder.parent / "run" / "logs" / "trial.log").read_text().splitlines()
    found = [line for line in printed if line.startswith("LOSS")][:_LOSSES]
    plain = [line for line in plain_lines(script, 20 * _LOSSES) if line.startswith("LOSS")][:_LOSSES]
    assert len(plain) > 1
    if found[: len(plain)] != plain[: len(found)] and found[0] in found[1:]:
        # It was begun anew, as where a script puts another optimizer in the place of its own.
        found = found[: found.index(found[0], 1)]
    assert found[: len(plain)] == plain[: len(found)]
    assert len(found) >= min(20, len(plain))
