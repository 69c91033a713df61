"""What is believed of packages' trainings is judged as it should be."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.checks.packages.cases import CASES, ENVIRONMENTS, Truth
from benchmarks.checks.packages.measure import HERE, why_untrue, wrong_in
from benchmarks.page.packages import packages

TRUTH = Truth(("Net",), ("Adam",), 300, "15 epochs of 40 batches", "Tokens 320 in 8", 20, batches=2)
FOUND: dict[str, Any] = {
    "models": ["Net"],
    "optimizers": ["Adam"],
    "updates itself": False,
    "loaders": ["Tokens 320 in 8"],
    "samples a step": 16,
    "steps an epoch": 20,
    "planned": 300,
    "planned from": "range(epochs) in train.py:3",
    "assumed": None,
}


@pytest.mark.parametrize(
    ("other", "wrong"),
    [
        ({}, []),
        ({"planned": None, "assumed": 200}, []),  # which is said
        ({"planned": 200}, ["planned: 200 instead of 300"]),
        ({"models": ["Net", "Linear"]}, ["models: ['Net', 'Linear'] instead of ['Net']"]),
        ({"samples a step": 8}, ["samples a step: 8 instead of 16"]),
        ({"loaders": []}, ["loaders: [] instead of ['Tokens 320 in 8']"]),
        ({"failed": "no optimizer"}, ["it is not understood: no optimizer"]),
    ],
)
def test_what_is_wrong_is_told(other: dict[str, Any], wrong: list[str]) -> None:
    assert wrong_in(TRUTH, FOUND | other) == wrong


@pytest.mark.parametrize(
    ("counted", "untrue"),
    [
        ({"updates": {"Adam": 300}, "batches": {"Tokens 320 in 8": 600}}, False),
        ({"updates": {"Adam": 301}, "batches": {"Tokens 320 in 8": 600}}, True),
        ({"updates": {"Adam": 300}, "batches": {"Tokens 320 in 8": 300}}, True),
        ({"failed": "exit code 1"}, True),
    ],
)
def test_a_truth_must_agree_with_what_a_plain_run_counts(counted: dict[str, Any], untrue: bool) -> None:
    assert bool(why_untrue(TRUTH, counted)) is untrue


def test_each_package_has_a_script_an_environment_and_a_line_on_the_page() -> None:
    for case in CASES:
        assert (HERE / "scripts" / case.script).exists()
        pinned = [one for call in ENVIRONMENTS[case.environment] for one in call]
        assert any(one.startswith(f"{case.package}==") for one in pinned)
    row = {"versions": {"peft": "1.0"}, "expected": TRUTH._asdict(), "found": FOUND, "wrong": []}
    assert packages({"peft": row})[-1].endswith("| 300: range(epochs) in train.py:3 | yes |")
