"""What measured times of whole runs say about other numbers of ranks: a fit of few parameters, each point with its
interval."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autoaccel.advise.overlap import buckets_of, reduced_seconds
from autoaccel.errors import BadRequestError
from autoaccel.records.scaling import Batch, Bottleneck, Cluster, Exchange, LinkFigures, RunPoint, RunScaling
from autoaccel.units import MAX_WAIT_SECONDS, check_range

_DEVIATION, _WEIGHT = 0.02, 4
"""What is expected of a run's time before any is measured twice: it deviates from the fit by 2 %, as if four such
deviations had been seen. Two or three measured runs cannot tell their own noise."""

_SHARE = 0.2
"""Fixed cost and exposed all-reduce are each expected within a fifth of the work (one standard deviation): this decides
next to nothing where measured times tell them apart, and most where they do not."""

_REACHED = (0.5, 1.0)
"""What all-reduce reaches of a published figure: between half (such as 65 % in NVIDIA/nccl-tests issue 112) and all."""

CONFIDENCE = 0.95

_DRAWS = 2000

_MAX_WORLD_SIZE, _MAX_POINTS = 10_000_000, 1000
"""A hundred times the ranks of the largest trainings, and more sizes than anybody reads."""

_FREE = LinkFigures("free", float("inf"), 0.0, "costs nothing: what is not known is fitted")

Matrix = NDArray[np.float64]


def scale_runs(
    measured: Mapping[int, float],
    predict: Sequence[int],
    *,
    batch: Batch = "keep",
    machines_of: int | None = None,
    exchange: Exchange | None = None,
) -> RunScaling:
    """Return the times of whole runs: those measured, and those predicted from them for other world sizes.

    With N ranks, n of them on the fullest of M machines, a run takes

        fixed + work / N + steps(N) / steps(1) x (2(n-1)/n all-reduce + 2(M-1)/M between)

    where steps(N) is steps(1) / N if the batch per rank is kept. All four are at least zero and fitted by least squares
    of relative deviations; `between` only where several machines are measured. A step's all-reduce over links whose
    figures are known is added as they say, less what the backward pass hides; what is fitted is then what comes on top.
    The ring's factor fits whatever all ranks wait for: the wait for the slowest of them grows much alike.

    Intervals come from 2,000 refits, each to times and expectations that might have been as well (randomize, then
    optimize: Bardsley et al., SIAM Journal on Scientific Computing 2014), with the deviation of one run added. They
    know nothing of what sets in only beyond the measured sizes.

    Args:
        measured: Seconds by world size, at least two.
        predict: World sizes; those measured are left out.
        batch: What happens to it with more ranks.
        machines_of: How many ranks a machine has; None: all are on one.
        exchange: What is exchanged, and over which links.

    Raises:
        BadRequestError: If too little was measured, or a number makes no sense.
    """
    _check(measured, predict, machines_of, exchange)
    most = machines_of or max(*measured, *predict)
    model = _Model(measured, batch, most, exchange)
    fit = _fit(model)
    points = tuple(_point(model, fit, world_size) for world_size in sorted({*measured, *predict}))
    effective = None
    if exchange is not None and fit.shares[2] > 0:
        effective = exchange.gradient_bytes * exchange.steps / float(fit.shares[2] * model.scale_seconds)
    links = tuple(link for link in (exchange.within, exchange.between) if link) if exchange else ()
    return RunScaling(batch, fit.deviation, links, effective, points)


class _Model:
    """The terms of a run's time, by number of ranks."""

    def __init__(self, measured: Mapping[int, float], batch: Batch, most: int, exchange: Exchange | None) -> None:
        self.measured = measured  # seconds by number of ranks
        smallest = min(measured)
        self.scale_seconds = smallest * measured[smallest]  # about the work: what the fitted shares are shares of
        self._batch = batch
        within, between = (exchange.within, exchange.between) if exchange else (None, None)
        self.cluster = Cluster(most, within or _FREE, between or _FREE)
        self._exchange = exchange
        self._between = max(measured) > most

    def terms(self, world_size: int) -> Matrix:
        """Return the seconds that each fitted share stands for: work, fixed cost, all-reduce, between machines."""
        inside, machines = self.cluster.on_fullest(world_size), self.cluster.machines(world_size)
        steps = self._steps(world_size)
        terms = [1 / world_size, 1.0, steps * 2 * (inside - 1) / inside]
        if self._between:
            terms.append(steps * 2 * (machines - 1) / machines)
        return np.array(terms) * self.scale_seconds

    def known_seconds(self, world_size: int) -> float:
        """Return what all-reduce over links with known figures adds to a run."""
        if self._exchange is None:
            return 0.0
        steps = self._exchange.steps * self._steps(world_size)
        compute = np.array([self.scale_seconds / world_size / steps])
        reduced = reduced_seconds(compute, world_size, self.cluster, buckets_of(self._exchange.gradient_bytes))
        return steps * float((reduced - compute)[0])

    def _steps(self, world_size: int) -> float:
        """Return the number of steps, relative to one rank's."""
        return 1 / world_size if self._batch == "keep" else 1.0


class _Fit(NamedTuple):
    shares: Matrix  # (terms,)
    deviation: float  # relative, of one run
    draws: Matrix  # (terms, draws), shares that might be true as well
    deviations: Matrix  # (draws,)
    reached: Matrix  # (draws,), of the known links' figures


def _fit(model: _Model) -> _Fit:
    measured = model.measured
    times = np.array(list(measured.values()))
    rows = np.array([model.terms(world_size) for world_size in measured]) / times[:, None]  # (runs, terms)
    known = np.array([model.known_seconds(world_size) for world_size in measured]) / times
    terms = rows.shape[1]
    expected = np.eye(terms)[1:] / _SHARE  # all but the work

    def solve(deviation: float, targets: Matrix, expectations: Matrix) -> Matrix:
        return _nonnegative(np.vstack([rows / deviation, expected]), np.vstack([targets / deviation, expectations]))

    shares = solve(_DEVIATION, (1 - known)[:, None], np.zeros((terms - 1, 1)))[:, 0]
    residuals = rows @ shares + known - 1
    weight = _WEIGHT + max(0, len(times) - terms)
    deviation = float(np.sqrt((_WEIGHT * _DEVIATION**2 + (residuals**2).sum()) / weight))

    generator = np.random.default_rng(0)
    deviations = deviation * np.sqrt(weight / generator.chisquare(weight, _DRAWS))
    reached = generator.uniform(*_REACHED, _DRAWS)
    targets = 1 - known[:, None] / reached + deviations * generator.normal(size=(len(times), _DRAWS))
    draws = solve(deviation, targets, generator.normal(size=(terms - 1, _DRAWS)))
    return _Fit(shares, deviation, draws, deviations, reached)


def _nonnegative(rows: Matrix, targets: Matrix) -> Matrix:
    """Return for each column of targets the least-squares solution without negative parts, (terms, columns).

    By trying every subset of terms, the first always among them: there are at most eight.
    """
    count = rows.shape[1]
    best, least = np.zeros((count, targets.shape[1])), np.full(targets.shape[1], np.inf)
    for size in range(count):
        for others in itertools.combinations(range(1, count), size):
            free = [0, *others]
            found = np.zeros_like(best)
            found[free] = np.linalg.lstsq(rows[:, free], targets, rcond=None)[0]
            cost = ((rows @ found - targets) ** 2).sum(axis=0)
            better = (found >= 0).all(axis=0) & (cost < least)
            best[:, better], least[better] = found[:, better], cost[better]
    return best


def _seconds_alone(model: _Model, fit: _Fit) -> float:
    """Return how long the run takes with one rank: as measured, else as fitted."""
    if 1 in model.measured:
        return model.measured[1]
    return float(model.terms(1) @ fit.shares) + model.known_seconds(1)


def _point(model: _Model, fit: _Fit, world_size: int) -> RunPoint:
    measured, alone = model.measured.get(world_size), _seconds_alone(model, fit)
    work, fixed, *all_reduce = (float(part) for part in model.terms(world_size) * fit.shares)
    known = model.known_seconds(world_size)
    parts: dict[Bottleneck, float] = {"compute": work, "all-reduce": sum(all_reduce) + known, "fixed cost": fixed}
    fitted = sum(parts.values())
    if measured is None:
        seconds = fitted
        noise = np.exp(fit.deviations * np.random.default_rng(world_size).normal(size=_DRAWS))
        likely = (model.terms(world_size) @ fit.draws + known / fit.reached) * noise
        low, high = (float(end) for end in np.quantile(likely, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]))
    else:
        seconds = low = high = float(measured)
    return RunPoint(
        ranks=world_size,
        machines=model.cluster.machines(world_size),
        seconds=seconds,
        predicted=measured is None,
        fitted_seconds=fitted,
        low=low,
        high=high,
        speedup=alone / seconds,
        efficiency=alone / seconds / world_size,
        compute_seconds=work,
        all_reduce_seconds=parts["all-reduce"],
        fixed_seconds=fixed,
        bottleneck=max(parts, key=lambda name: parts[name]),
    )


def _check(
    measured: Mapping[int, float], predict: Sequence[int], machines_of: int | None, exchange: Exchange | None
) -> None:
    check_range("how many numbers of ranks are measured and predicted", len(measured) + len(predict), 0, _MAX_POINTS)
    for world_size in [*measured, *predict]:
        check_range("a number of ranks", world_size, 1, _MAX_WORLD_SIZE)
    for world_size, seconds in measured.items():
        if not 0 < seconds <= MAX_WAIT_SECONDS:
            raise BadRequestError(f"the time with {world_size} ranks must be above zero seconds, got {seconds}.")
    if len(measured) < 2:
        raise BadRequestError(
            f"at least two numbers of ranks must be measured, got {len(measured)}. Measure 1, 2 and 4, such as "
            "--measured 1=707,2=393,4=208."
        )
    if machines_of is None:
        return
    check_range("--machines-of", machines_of, 1, _MAX_WORLD_SIZE)
    beyond = [world_size for world_size in predict if world_size > machines_of]
    if beyond and max(measured) <= machines_of and (exchange is None or exchange.between is None):
        raise BadRequestError(
            f"{beyond[0]} ranks need several machines of {machines_of} ranks, but only one was measured, so the "
            "speed of the network is unknown. Add a time measured on several machines, or give --between, "
            "--gradient-bytes and --steps."
        )
