"""Functions that are given a dataset, and which of them change it."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from autoaccel.runtime.script.told import told_in_loops


class Samples:
    """Two rows, which loading reads."""

    def __init__(self) -> None:
        self.rows = [[1], [2]]

    def __getitem__(self, place: int) -> list[int]:
        return self.rows[place]

    def show(self) -> list[str]:
        """Change nothing but a list of its own."""
        found: list[str] = []
        found.append(str(len(self.rows)))
        return found

    def grow(self) -> None:
        """Add a row."""
        self.rows.append([3])


class Meter:
    """Has a method of a name that collections have."""

    def update(self) -> None:
        """Change nothing."""


class Trainer:
    """Holds a meter and what is trained on."""

    def __init__(self, samples: Samples) -> None:
        self.meter, self.samples, self.losses = Meter(), samples, [0.0]

    def measures(self, samples: Samples) -> None:
        """Change what is its own."""
        self.meter.update()
        self.losses.append(float(len(samples.rows)))

    def grows(self, _: Samples) -> None:
        """Change what it was given before."""
        rows = self.samples.rows
        rows.append([3])

    def found(self) -> list[list[int]]:
        """Return what is trained on."""
        return self.samples.rows

    def grows_found(self, _: Samples) -> None:
        """Change what a method of its own returns."""
        self.found().append([3])


def measures(samples: Samples, meter: Meter) -> None:
    """Change what is not the samples'."""
    losses = []
    for row in samples.rows:
        losses.append(sum(row))
    meter.update()


def grows(samples: Samples, _: Meter) -> None:
    """Change a row, by another name."""
    for row in samples.rows:
        first = row
        first.append(3)


SAMPLES = Samples()


def grows_global(_: Samples, meter: Meter) -> None:
    """Change what it was not asked to."""
    meter.update()
    SAMPLES.rows.append([3])


TRAINER = Trainer(SAMPLES)


@pytest.mark.parametrize(
    ("epoch", "told"),
    [
        (measures, ""),
        (grows, "Samples.rows[0]"),
        (grows_global, "Samples.rows"),
        (TRAINER.measures, ""),
        (TRAINER.grows, "Samples.rows"),
        (TRAINER.grows_found, "Samples.rows"),
    ],
)
def test_a_function_changes_the_samples_only_if_what_it_changes_leads_to_them(
    epoch: Callable[..., None], told: str
) -> None:
    samples, meter = SAMPLES, Meter()
    for _ in range(1):
        assert told_in_loops([sys._getframe()], [samples]) == told
        if told == "never":  # it is read, not run
            epoch(samples, meter)


def test_a_method_of_the_samples_changes_them_only_if_it_changes_what_is_theirs() -> None:
    def shown(samples: Samples) -> str:
        for _ in range(1):
            told = told_in_loops([sys._getframe()], [samples])
            samples.show()
        return told

    def grown(samples: Samples) -> str:
        for _ in range(1):
            told = told_in_loops([sys._getframe()], [samples])
            if told == "never":  # it is read, not run
                samples.grow()
        return told

    assert shown(SAMPLES) == ""
    assert grown(SAMPLES) == "Samples.rows"
