"""What a first compilation is expected to take."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autoaccel.advise.compiling import first_compile_seconds
from autoaccel.space.knobs import KnobContext


@pytest.mark.parametrize(
    ("tensors", "took"), [(6, 14.1), (10, 16.6), (64, 36.7), (100, 50.7), (110, 59.6), (128, 63.6)]
)
def test_it_is_what_the_first_half_of_the_suite_took(
    vary: Callable[..., KnobContext], context: KnobContext, tensors: int, took: float
) -> None:
    """Cold seconds of benchmarks/results/unseen.jsonl: instrument, recommender, U-Net, GPT-2, ResNet-34, ConvNeXt."""
    assert first_compile_seconds(vary(context, parameter_tensors=tensors)) == pytest.approx(took, rel=0.1)


def test_changing_shapes_are_compiled_more_than_once(vary: Callable[..., KnobContext], context: KnobContext) -> None:
    expected = first_compile_seconds(vary(context, parameter_tensors=105, shapes_change=True))
    assert expected == pytest.approx(132.1, rel=0.1)  # the BERT there


def test_nothing_is_expected_of_a_model_or_a_device_that_nobody_knows(
    vary: Callable[..., KnobContext], context: KnobContext
) -> None:
    assert first_compile_seconds(vary(context, parameter_tensors=0)) is None
    assert first_compile_seconds(vary(context, parameter_tensors=100, device="cuda")) is None
