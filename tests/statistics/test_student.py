"""Student's t against the printed tables."""

from __future__ import annotations

import pytest

from autoaccel.statistics.student import t_cdf, t_quantile


@pytest.mark.parametrize(
    ("probability", "degrees", "value"),
    [(0.95, 1, 6.3138), (0.95, 2, 2.9200), (0.975, 2, 4.3027), (0.975, 4, 2.7764), (0.975, 5, 2.5706),
     (0.99, 30, 2.4573), (0.975, 200, 1.9719)],
)  # fmt: skip
def test_quantiles_agree_with_the_tables(probability: float, degrees: int, value: float) -> None:
    assert t_quantile(probability, degrees) == pytest.approx(value, abs=5e-5)
    assert t_quantile(1 - probability, degrees) == pytest.approx(-value, abs=5e-5)


def test_the_quantile_inverts_the_distribution() -> None:
    assert t_cdf(t_quantile(0.9, 7), 7) == pytest.approx(0.9, abs=1e-9)
    assert t_cdf(0.0, 3) == 0.5


@pytest.mark.parametrize(("probability", "degrees"), [(0.0, 3), (1.0, 3), (0.5, 0)])
def test_what_has_no_quantile_is_refused(probability: float, degrees: int) -> None:
    with pytest.raises(ValueError, match="must hold"):
        t_quantile(probability, degrees)
