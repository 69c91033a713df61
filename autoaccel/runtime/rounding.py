"""What settings change in a step, held against the user's own: the same states, batches and random numbers.

Updates, not gradients: small ones that are lost where weights or an optimizer's state are kept in a short type show in
nothing else. Two processes make them, one under the user's own settings and one under the others, because settings may
change a process as a whole; the first keeps in a folder what the second needs, and any others after it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from autoaccel.errors import BadRequestError
from autoaccel.records.messages import Failure
from autoaccel.records.rounding import UpdateError, UpdatesCompared, UpdatesRecorded
from autoaccel.runtime.paced import Inspectable
from autoaccel.runtime.trained_state import Values
from autoaccel.runtime.updates import LoopSteps, Stepping, Steps, Wanted, make


def record_updates(loop: Inspectable, folder: Path, points: Sequence[int], batches: int) -> UpdatesRecorded | Failure:
    """Train as far as the last point, and keep what others are to be compared with; see `recording`.

    Args:
        loop: Under the user's own settings; no step is made yet.
    """
    steps = LoopSteps(loop)
    return make(recording(steps, folder, points, batches), steps.make)


def compare_updates(loop: Inspectable, folder: Path) -> UpdatesCompared:
    """Return how far the updates, and the losses, are from those that were recorded; see `comparing`.

    Args:
        loop: Under other settings, from the same seed; no step is made yet.
    """
    course = read_course(folder, loop.applied.compiles)
    steps = LoopSteps(loop)
    return make(comparing(steps, folder, course), steps.make)


def recording(steps: Stepping, folder: Path, points: Sequence[int], batches: int) -> Steps[UpdatesRecorded | Failure]:
    """Train as far as the last point, and keep what others are to be compared with.

    Args:
        steps: Of a training under the user's own settings.
        folder: Where that is kept.
        points: After how many steps a state is kept, and updates are made from it; they rise.
        batches: That each make an update from each state.
    """
    losses: list[float] = []
    for step in range(1, points[-1] + 1):
        losses.append((yield Wanted()).loss)
        infinite = None if math.isfinite(losses[-1]) else "loss"
        if step in points and infinite is None:
            repeat = steps.repeats and step == points[-1]
            infinite = yield from _record_point(steps, folder / f"{step}.pt", batches, repeat)
        if infinite is not None:
            return Failure(kind="diverged", message=f"the {infinite} is not finite at step {step}")
    course = {"losses": losses, "points": tuple(points), "batches": batches, "draws": steps.draws_numbers}
    torch.save(course, folder / _COURSE)
    return UpdatesRecorded()


_COURSE = "course.pt"


def read_course(folder: Path, compiles: bool) -> dict[str, Any]:
    """Return what `recording` has kept of the whole of its training; prepare this process, in which nothing was made.

    Args:
        folder: Where it was kept.
        compiles: Whether the settings here compile the model.
    """
    course: dict[str, Any] = torch.load(folder / _COURSE, weights_only=True)
    if course["draws"] and compiles:
        # Inductor draws dropout's numbers in its own way, and the two would differ by them.
        from torch._inductor import config

        config.fallback_random = True
    return course


def comparing(steps: Stepping, folder: Path, course: dict[str, Any]) -> Steps[UpdatesCompared]:
    """Make the steps that were recorded once more; return how far their updates and losses are from those.

    Args:
        steps: Of a training under other settings, from the same seed.
        folder: What `recording` has kept.
        course: Read from it.

    Raises:
        BadRequestError: If the two trainings have not the same tensors.
    """
    losses: list[float] = []
    errors: list[UpdateError] = []
    short: set[str] = set()
    for step in range(1, course["points"][-1] + 1):
        losses.append((yield Wanted()).loss)
        if step in course["points"]:
            found, short = yield from _errors_at(steps, step, folder / f"{step}.pt", course["batches"])
            errors += found
    finite = all(map(math.isfinite, losses)) and all(math.isfinite(one.error) for one in errors)
    return UpdatesCompared(
        finite=finite,
        draws_numbers=course["draws"],
        shortened=tuple(sorted(short)),
        batches=course["batches"],
        errors=tuple(errors) if finite else (),
        baseline_losses=tuple(course["losses"]),
        losses=tuple(losses) if finite else (),
    )


def _record_point(steps: Stepping, path: Path, batches: int, repeat: bool) -> Steps[str | None]:
    """Keep the state at a point, and what batches make of it; return which update of that is not finite, if one is.

    Args:
        steps: Of a training that has come to the point.
        path: Of the file.
        batches: How many.
        repeat: Whether the last batch's update is made once more.
    """
    trained = steps.state
    state = trained.copy()
    units = trained.units()
    made = []
    for _ in range(batches):
        made.append((yield Wanted(state)))
    again = (yield Wanted(state, again=True)).update if repeat else made[-1].update
    kinds, short = trained.kinds(), trained.short()
    trained.restore(state)
    baseline = _stacked([one.update for one in made])
    kept = {
        "state": state,
        "updates": baseline,
        "again": {name: again[name] for name in baseline},
        "gradients": _stacked([one.gradients for one in made]),
        "units": units,
        "kinds": {name: kinds[name] for name in baseline},
        "short": sorted(short),
        "squares": sorted(trained.squares()),
    }
    torch.save(kept, path)
    return next((f"update of {name}" for name, one in baseline.items() if not one.isfinite().all()), None)


def _errors_at(steps: Stepping, point: int, path: Path, batches: int) -> Steps[tuple[list[UpdateError], set[str]]]:
    """Return how far updates are from those that were kept, and which tensors only these settings keep in a short type.

    Raises:
        BadRequestError: If the two trainings have not the same tensors.
    """
    kept = torch.load(path, weights_only=True, mmap=True)
    trained = steps.state
    if missing := sorted(kept["kinds"].keys() - trained.kinds().keys()):
        raise BadRequestError(f"the settings leave out {missing[0]}, so its updates cannot be compared.")
    own_way = trained.copy()
    made = []
    for _ in range(batches):
        made.append((yield Wanted(kept["state"])).update)
    others, short = _stacked(made), trained.short()
    trained.restore(own_way)
    errors = (error_of(name, point, kept, others[name]) for name in kept["kinds"])
    return [one for one in errors if one is not None], short - set(kept["short"])


def error_of(name: str, point: int, kept: dict[str, Any], others: torch.Tensor) -> UpdateError | None:
    """Return the error of one tensor's updates (batches, coordinates); None if it never had a gradient."""
    kind, parameter, elements = kept["kinds"][name]
    baseline, again = kept["updates"][name], kept["again"][name]
    gradient = torch.ones_like(baseline) if kind == "buffer" else kept["gradients"][parameter]
    unit = kept["units"].get(name)
    weight = gradient.square().mean(dim=0).sqrt() if unit is None else 1 / unit
    if not weight.any():
        return None
    baseline, others, again, gradient = baseline * weight, others * weight, again * weight, gradient * weight
    error = others - baseline
    noise, of_gradient = _variance(baseline), _variance(gradient)
    return UpdateError(
        name=name,
        kind=kind,
        point=point,
        elements=elements,
        coordinates=len(weight),
        gradient=0.0 if kind == "buffer" else float(weight.square().mean()),
        error=_squared(error) / len(error),
        systematic=_squared(error.mean(dim=0)) - _variance(error) / len(error),
        repeat_error=_squared(again - baseline[-1]),
        noise=noise if unit is None else float(len(weight)),
        # The update holds momentum as well, the same for all batches. Its noise is of the gradient alone, and stands to
        # what the mean gradient makes of it as it does in the gradient.
        mean=noise / of_gradient * _squared(gradient.mean(dim=0)) if of_gradient else 0.0,
        squares=name in kept["squares"],
    )


def _squared(tensor: torch.Tensor) -> float:
    return float(tensor.square().sum())


def _variance(batches: torch.Tensor) -> float:
    return float(batches.var(dim=0, unbiased=True).sum())


def _stacked(made: list[Values]) -> Values:
    return {name: torch.stack([one[name] for one in made]) for name in made[0]}
