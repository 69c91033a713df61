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
from autoaccel.records.rounding import UpdateError, UpdatesCompared, UpdatesRecorded
from autoaccel.records.trial import Failure
from autoaccel.runtime.paced import Inspectable
from autoaccel.runtime.updates import Updates, Values


def record_updates(loop: Inspectable, folder: Path, points: Sequence[int], batches: int) -> UpdatesRecorded | Failure:
    """Train as far as the last point, and keep what others are to be compared with.

    Args:
        loop: Under the user's own settings; no step is made yet.
        folder: Where that is kept.
        points: After how many steps a state is kept, and updates are made from it; they rise.
        batches: That each make an update from each state.
    """
    updates = Updates(loop)
    losses: list[float] = []
    for step in range(1, points[-1] + 1):
        losses.append(updates.step())
        finite = math.isfinite(losses[-1])
        if step in points:
            finite = _record_point(updates, folder / f"{step}.pt", batches, repeat=step == points[-1]) and finite
        if not finite:
            return Failure(kind="diverged", message=f"your own losses or updates are not finite after {step} steps")
    course = {"losses": losses, "points": tuple(points), "batches": batches, "draws": updates.draws_numbers}
    torch.save(course, folder / "course.pt")
    return UpdatesRecorded()


def compare_updates(loop: Inspectable, folder: Path) -> UpdatesCompared:
    """Return how far the updates, and the losses, are from those that were recorded.

    Args:
        loop: Under other settings, from the same seed; no step is made yet.
        folder: What `record_updates` has kept.

    Raises:
        BadRequestError: If the two trainings have not the same tensors.
    """
    course = torch.load(folder / "course.pt", weights_only=True)
    if course["draws"] and loop.applied.compiles:
        # Inductor draws dropout's numbers in its own way, and the two would differ by them.
        from torch._inductor import config

        config.fallback_random = True
    updates = Updates(loop)
    losses: list[float] = []
    errors: list[UpdateError] = []
    for step in range(1, course["points"][-1] + 1):
        losses.append(updates.step())
        if step in course["points"]:
            found, short = _errors_at(updates, step, folder / f"{step}.pt", course["batches"])
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


def _record_point(updates: Updates, path: Path, batches: int, repeat: bool) -> bool:
    """Keep the state at a point, and what batches make of it; return whether all of that is finite.

    Args:
        updates: Of a training that has come to the point.
        path: Of the file.
        batches: How many.
        repeat: Whether the last batch's update is made once more.
    """
    state = updates.state()
    units = updates.units()
    made, gradients = [], []
    for _ in range(batches):
        number, batch = updates.draw()
        made.append(updates.update_from(state, number, batch))
        gradients.append(updates.gradients)
    again = updates.update_from(state, number, batch) if repeat else made[-1]
    kinds, short = updates.kinds(), updates.short()
    updates.restore(state)
    baseline = _stacked(made)
    kept = {
        "state": state,
        "updates": baseline,
        "again": {name: again[name] for name in made[0]},
        "gradients": _stacked(gradients),
        "units": units,
        "kinds": {name: kinds[name] for name in made[0]},
        "short": sorted(short),
    }
    torch.save(kept, path)
    return all(bool(one.isfinite().all()) for one in baseline.values())


def _errors_at(updates: Updates, point: int, path: Path, batches: int) -> tuple[list[UpdateError], set[str]]:
    """Return how far updates are from those that were kept, and which tensors only these settings keep in a short type.

    Raises:
        BadRequestError: If the two trainings have not the same tensors.
    """
    kept = torch.load(path, weights_only=True, mmap=True)
    if missing := sorted(kept["kinds"].keys() - updates.kinds().keys()):
        raise BadRequestError(f"the settings leave out {missing[0]}, so its updates cannot be compared.")
    own_way = updates.state()
    others = _stacked([updates.update_from(kept["state"], *updates.draw()) for _ in range(batches)])
    short = updates.short()
    updates.restore(own_way)
    errors = (_error_of(name, point, kept, others[name]) for name in kept["kinds"])
    return [one for one in errors if one is not None], short - set(kept["short"])


def _error_of(name: str, point: int, kept: dict[str, Any], others: torch.Tensor) -> UpdateError | None:
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
    )


def _squared(tensor: torch.Tensor) -> float:
    return float(tensor.square().sum())


def _variance(batches: torch.Tensor) -> float:
    return float(batches.var(dim=0, unbiased=True).sum())


def _stacked(made: list[Values]) -> Values:
    return {name: torch.stack([one[name] for one in made]) for name in made[0]}
