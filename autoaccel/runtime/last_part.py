"""What the last part of a training shows: its loss, and its metric at several points."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import torch

from autoaccel.records.messages import Failure, Finished
from autoaccel.runtime.metrics import Evaluated
from autoaccel.runtime.paced import Inspectable, Judged, Telling
from autoaccel.runtime.steps import Stretch

_LOSS_SHARE = 0.25  # of the steps, the last: over them the loss is averaged
_POINTS = (0.9, 0.925, 0.95, 0.975, 1.0)  # of the steps, after which the metric is computed; the last one always is
_MAX_TIME = 0.1
"""Of the time that all steps take, for evaluating at the other points. Where weights jump from step to step, the mean
of five metrics scatters by less than half of what the last one does. A training whose rate ends at zero shows nearly
the same at each of them."""

_NEARLY = 0.9  # of the planned steps: with larger batches an epoch's last one makes the run some steps longer
_MAX_SCORES = 10_000
"""Numbers that are told of one metric; of more samples groups of neighbours are told, whose means scatter as much."""


class LastPart:
    """Of a training that ends after so many of its own steps."""

    def __init__(self, paced: Judged, steps: int) -> None:
        """Let the training keep the losses that count.

        Args:
            paced: `Inspectable`, so that its metric can be computed, or `Telling`.
            steps: After so many it ends.
        """
        self._paced = paced
        self._loop = paced if isinstance(paced, Inspectable) else None
        self._steps = steps
        whole = self._loop is not None and steps > _NEARLY * self._loop.planned_steps
        # Of a part of the run its end counts, where an evaluation may take as long as all of the steps.
        self._points = [max(1, round(share * steps)) for share in (_POINTS if whole else _POINTS[-1:])]
        paced.losses.kept_after = steps - max(1, round(_LOSS_SHARE * steps))

    @property
    def starts_at(self) -> int:
        """Steps after which the metric is looked at for the first time: the steps before it may be interrupted."""
        return self._points[0]

    def training(self, step_seconds: float) -> Stretch[Finished | Failure]:
        """Take the steps that are left; return what they show.

        Args:
            step_seconds: What a step takes, to know which evaluations are cheap beside the run.
        """
        if self._loop is None:
            return (yield from self._as_it_says())
        paced, found = self._loop, list[Evaluated]()
        cheap = True
        for number, point in enumerate(self._points):
            while paced.steps_done < point:
                yield
            if not (cheap or number == len(self._points) - 1):
                continue
            start = time.perf_counter()
            found.append(paced.evaluate_samples())
            others = (len(self._points) - 1) * (time.perf_counter() - start)
            cheap = cheap and others <= _MAX_TIME * self._steps * step_seconds
        # Both trainings of a pair must have been looked at alike: those that were not look at the end only.
        counted = found if len(found) == len(self._points) else found[-1:]
        metric = math.fsum(one.metric for one in counted) / len(counted)
        first_loss, loss = paced.kept_losses()
        if not (math.isfinite(metric) and math.isfinite(loss)):
            return _diverged(paced.steps_done, paced.training.metric.name, metric, loss)
        return Finished(
            metric=metric,
            last_metric=found[-1].metric,
            points=len(counted),
            loss=loss,
            first_loss=first_loss,
            scores=_mean_scores(counted),
        )

    def _as_it_says(self) -> Stretch[Finished | Failure]:
        """Take the steps that are left, and as many more as the training needs to say what it has reached."""
        paced = self._paced
        assert isinstance(paced, Telling)  # or it would be no `Judged`
        while paced.steps_done < self._steps:
            yield
        while (said := paced.metric_since(self._steps)) is None:
            yield
        if isinstance(said, Failure):
            return said
        first_loss, loss = paced.kept_losses()
        has_losses = not math.isnan(first_loss)
        if not (math.isfinite(said.mean) and (math.isfinite(loss) or not has_losses)):
            return _diverged(paced.steps_done, "the metric", said.mean, loss)
        return Finished(
            metric=said.mean,
            last_metric=said.last,
            points=said.points,
            loss=loss if has_losses else None,
            first_loss=first_loss if has_losses else None,
        )


def _diverged(steps: int, name: str, metric: float, loss: float) -> Failure:
    return Failure(kind="diverged", message=f"after {steps} steps {name} is {metric}, the loss {loss}", signature="")


def _mean_scores(found: Sequence[Evaluated]) -> bytes:
    """Return each sample's mean score, as float32; of many samples each group's. Empty where there are none."""
    scores = [one.scores for one in found if one.scores is not None]
    if len(scores) < len(found) or len({len(one) for one in scores}) > 1:
        return b""
    mean = torch.stack(scores).mean(dim=0)
    if len(mean) > _MAX_SCORES:
        mean = torch.stack([group.mean() for group in mean.tensor_split(_MAX_SCORES)])
    return mean.float().numpy().tobytes()
