"""What the trials so far say about settings that were not tried: a Gaussian process over log speed-ups."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from autoaccel.advise.effects import Halving
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.space.knobs import KNOBS

_JOINT = 0.5
"""How large the effect of two knobs together, beyond the sum of both, is expected relative to the smaller of them. A
guess, which only decides where a search begins: what it measures corrects it."""

_BEYOND_BASIC = 0.5
"""How large the effect of a value beyond that of its knob's basic one is expected, relative to the knob's. A guess, and
corrected likewise."""

Vector = NDArray[np.float64]


class Surrogate:
    """Expects each changed knob to multiply the speed by some factor, and each pair of knobs by some more.

    The factors' logarithms are normal around nothing: before any trial a knob is as likely to harm as to help, except
    counts of which fewer are known to harm as a rule. Their deviation says how much a knob could matter. The
    baseline's own speed-up is 1 and certain.
    """

    def __init__(
        self,
        space: SearchSpace,
        baseline: Settings,
        deviations: Mapping[str, float],
        halvings: Mapping[str, Halving] | None = None,
    ) -> None:
        """Begin before any trial.

        Args:
            space: Its knobs differ between settings, or from the baseline.
            baseline: The user's own settings.
            deviations: For each of them the standard deviation of its effect's logarithm, above zero.
            halvings: For counts of which fewer usually harm, what half as many are expected to do.
        """
        forced = {name: (baseline[name], value) for name, value in space.fixed.items() if value != baseline[name]}
        values_of = {**forced, **space.open}
        # A wish may have ruled the baseline's own value out: it is not tried, but what is tried is compared with it.
        self._values = {name: list(dict.fromkeys((baseline[name], *values))) for name, values in values_of.items()}
        self._names = list(self._values)
        self._baseline = baseline
        self._similar = {name: self._similarity(name, deviations[name]) for name in self._names}
        self._joint = {
            pair: _JOINT * min(deviations[name] for name in pair) for pair in itertools.combinations(self._names, 2)
        }
        self._deviations = deviations
        self._means = [self._mean(name, (halvings or {}).get(name)) for name in self._names]
        self._known: list[list[int]] = []
        self._logs: list[float] = []
        self._noise: list[float] = []

    def learn(self, settings: Settings, log_speedup: float, deviation: float) -> None:
        """Take a reading into account; `deviation` is its standard deviation."""
        self._known.append(self._coded(settings))
        self._logs.append(log_speedup)
        self._noise.append(deviation**2)

    def predict(self, settings: Sequence[Settings]) -> tuple[Vector, Vector]:
        """Return mean and standard deviation of the log speed-up of each settings."""
        asked = self._table([self._coded(one) for one in settings])
        prior = self._prior_variance(asked)
        if not self._known:
            return self._expected(asked), np.sqrt(prior)
        known = self._table(self._known)
        covariance = self._covariance(known, known) + np.diag(self._noise)
        factor = np.linalg.cholesky(covariance)
        cross = np.linalg.solve(factor, self._covariance(known, asked))  # (known, asked)
        unexpected = np.array(self._logs) - self._expected(known)
        mean = self._expected(asked) + cross.T @ np.linalg.solve(factor, unexpected)
        variance = prior - (cross**2).sum(axis=0)
        return mean, np.sqrt(np.maximum(variance, 0.0))

    def contrast(self, settings: Sequence[Settings], weights: Sequence[float]) -> tuple[float, float]:
        """Return mean and standard deviation of the weighted sum of the settings' log speed-ups.

        What they share cancels out: the ratio of two settings can be known better than either speed-up.
        """
        asked = self._table([self._coded(one) for one in settings])
        weight = np.array(weights)
        covariance = self._covariance(asked, asked)
        mean, _ = self.predict(settings)
        if self._known:
            known = self._table(self._known)
            factor = np.linalg.cholesky(self._covariance(known, known) + np.diag(self._noise))
            cross = np.linalg.solve(factor, self._covariance(known, asked))  # (known, asked)
            covariance = covariance - cross.T @ cross
        variance = float(weight @ covariance @ weight)
        return float(weight @ mean), max(variance, 0.0) ** 0.5

    def _coded(self, settings: Settings) -> list[int]:
        return [self._values[name].index(settings[name]) for name in self._names]

    def _table(self, coded: list[list[int]]) -> NDArray[np.intp]:
        return np.array(coded, dtype=np.intp).reshape(len(coded), len(self._names))

    def _mean(self, name: str, halving: Halving | None) -> Vector:
        """Return the mean effect of each value: a fixed amount for each time that the count is halved."""
        if halving is None:
            return np.zeros(len(self._values[name]))
        halved = [max(0.0, math.log2(halving.below / int(value))) for value in self._values[name]]
        return halving.log_speedup * np.array(halved)

    def _expected(self, asked: NDArray[np.intp]) -> Vector:
        """Return the mean of the log speed-up of each settings before any trial."""
        return sum((mean[asked[:, column]] for column, mean in enumerate(self._means)), np.zeros(len(asked)))

    def _similarity(self, name: str, deviation: float) -> Vector:
        """Return the covariance of the effects of each two values; the baseline's own value has none.

        Effects of counts are a random walk over their logarithms that begins at the baseline's: a count next to it
        hardly matters, those beyond a count begin with its effect. The farthest has the whole deviation. Values that
        include a knob's basic one begin with the effect of that.
        """
        values, baseline = self._values[name], self._baseline[name]
        similar = np.zeros((len(values), len(values)))
        if all(type(value) is int for value in (baseline, *values)):
            steps = [math.log2(1 + int(value)) - math.log2(1 + int(baseline)) for value in values]
            farthest = max(map(abs, steps))
            for i, j in itertools.product(range(len(values)), repeat=2):
                if steps[i] * steps[j] > 0:
                    similar[i, j] = min(abs(steps[i]), abs(steps[j])) / farthest
            return similar * deviation**2
        for i, value in enumerate(values):
            similar[i, i] = 0.0 if value == baseline and type(value) is type(baseline) else 1.0
        knob = KNOBS.get(name)
        if knob is not None and knob.basic is not None and knob.is_off(baseline):
            including = [i for i, value in enumerate(values) if not knob.is_off(value)]
            similar[np.ix_(including, including)] = 1.0
            for i in including:
                similar[i, i] += 0.0 if values[i] == knob.basic else _BEYOND_BASIC**2
        return similar * deviation**2

    def _covariance(self, some: NDArray[np.intp], others: NDArray[np.intp]) -> Vector:
        effects = {
            name: self._similar[name][some[:, [column]], others[:, column]] for column, name in enumerate(self._names)
        }
        return self._summed(effects, np.zeros((len(some), len(others))))

    def _prior_variance(self, asked: NDArray[np.intp]) -> Vector:
        effects = {name: np.diag(self._similar[name])[asked[:, column]] for column, name in enumerate(self._names)}
        return self._summed(effects, np.zeros(len(asked)))

    def _summed(self, effects: Mapping[str, Vector], total: Vector) -> Vector:
        """Return the covariance of whole settings, given that of each knob's effects."""
        for effect in effects.values():
            total = total + effect
        for (first, second), deviation in self._joint.items():
            scale = deviation**2 / (self._deviations[first] * self._deviations[second]) ** 2
            total = total + scale * effects[first] * effects[second]
        return total
