"""Rules about evaluating. Shares are of an epoch with one evaluation at its end."""

from __future__ import annotations

from autoaccel.advise.observations import Gain, Observations, Rule, make_finding
from autoaccel.records.conditions import Evaluation
from autoaccel.records.profile import Finding

_NOTICEABLE = 0.02
_LARGE = 0.2  # of an epoch


def _share(observed: Observations, seconds: float, evaluation: Evaluation) -> float:
    """Return the share of an epoch that these seconds of its evaluation are."""
    assert observed.training is not None
    return seconds / (observed.training.steps_per_epoch * observed.mean_step_seconds + evaluation.seconds)


def evaluation_gradients(observed: Observations) -> Finding | None:
    """Evaluation records a graph that nobody goes back through."""
    evaluation = observed.conditions.evaluation if observed.conditions else None
    if evaluation is None or observed.training is None or not evaluation.has_gradients:
        return None
    without = evaluation.seconds_without_gradients
    if without is None:
        return None
    share = _share(observed, max(0.0, evaluation.seconds - without), evaluation)
    if share < _NOTICEABLE:
        return None
    return make_finding(
        "evaluation-gradients",
        f"evaluation records gradients: without them, it takes {without:.3g} s instead of {evaluation.seconds:.3g} "
        f"s, a difference of {share:.0%} of an epoch",
        Gain(share, claims_half=True),
        "Evaluate under torch.inference_mode() or torch.no_grad().",
        numbers={"seconds": evaluation.seconds, "seconds_without_gradients": without},
    )


def long_evaluation(observed: Observations) -> Finding | None:
    """Evaluation takes a large part of an epoch."""
    evaluation = observed.conditions.evaluation if observed.conditions else None
    if evaluation is None or observed.training is None:
        return None
    share = _share(observed, evaluation.seconds, evaluation)
    if share < _LARGE:
        return None
    return make_finding(
        "long-evaluation",
        f"an evaluation takes {evaluation.seconds:.3g} s: {share:.0%} of an epoch that ends with one",
        Gain(share, removable=0.1),
        "Evaluate less often, on fewer samples, or in larger batches.",
        numbers={"seconds": evaluation.seconds, "batches_measured": evaluation.batches},
    )


RULES: dict[str, Rule] = {
    "evaluation-gradients": evaluation_gradients,
    "long-evaluation": long_evaluation,
}
