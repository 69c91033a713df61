"""The port to the training of a user: what is known of it besides what any has, and what that answers.

ScriptFacts is what a script was seen to do; PartsAtHand stands for all that build() returns. Both answer the same
questions, so nobody asks which of the two it is; `seen_of` alone decides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn

import msgspec
from msgspec import Meta

from autoaccel.errors import BadRequestError
from autoaccel.records.base import Record
from autoaccel.records.bounds import Count, PositiveSeconds, Seconds
from autoaccel.records.knob import EffectStage, Risk, Where
from autoaccel.records.script import OtherTraining, ScriptArgument, SeenLoader, SeenModel, SeenOptimizer
from autoaccel.records.script_metric import MetricSource

if TYPE_CHECKING:
    from autoaccel.records.progress import ScriptSeen
    from autoaccel.records.space import SearchSpace
    from autoaccel.records.workload import Direction, TrainingFacts


class SaidOfScript(NamedTuple):
    """What a person says of a script, beside what was seen of it."""

    arguments: tuple[ScriptArgument, ...] = ()  # that are tuned
    in_place: bool = False
    metric: MetricSource | None = None
    direction: Direction | None = None  # of the metric; None: it judges nothing
    steps: int | None = None  # of the planned run
    steps_from: str = ""  # how that was said, such as "--steps"


_NO_LOSS = (
    "it may change the numbers, and the script never calls backward() on a loss that could be compared; name a metric "
    "with --metric"
)
_NO_MODEL = "the script calls no module that it trains"
_NOT_CALLED = (
    "the script never calls its modules themselves, as model(inputs) does, but their forward() or what they hold: "
    "there is no call that could be changed"
)
_NO_OPTIMIZER = "the script makes its updates itself, without an optimizer of torch.optim"
_NOT_IN_SCRIPTS = "it does not work in a script, only in a file whose build() returns a Training"


class ScriptFacts(Record, frozen=True):
    """What a script was seen to do in its first steps, without any setting applied."""

    models: tuple[SeenModel, ...]
    optimizers: tuple[SeenOptimizer, ...]  # in the order of their first steps
    loaders: tuple[SeenLoader, ...]
    cycle: tuple[Count, ...]  # whose calls make one step, as indices of `optimizers`
    device: str  # of the parameters that are trained
    step_seconds: PositiveSeconds  # the median of those seen
    steps_seen: Count
    steps_per_epoch: Count | None  # None: no loader with a length feeds it
    planned_steps: Count | None  # None: it could not be read
    planned_from: str = ""  # what that was read from, such as "range(epochs) in train.py:48, 30 batches an epoch"
    has_loss: bool = False  # whether backward() is called on one number
    does: tuple[str, ...] = ()  # what it does already, in the user's words: "autocast to bfloat16", "seeds torch"
    backwards: Count = 1  # calls of backward() in a step
    parsed: dict[str, str] = {}  # numbers and words that its argument parser has found, by name with dashes
    arguments: tuple[ScriptArgument, ...] = ()  # that are tuned
    metric: MetricSource | None = None  # where it says how good its model is; None: its training loss does
    evaluations: Count = 0  # steps, of those seen, beside an evaluation or a checkpoint: they are not measured
    seen_seconds: Seconds = 0.0  # that the steps seen took, with what lay between them
    other_seconds: Seconds = 0.0  # of them, beside training: an evaluation, a checkpoint, a rollout
    growth: Annotated[float, Meta(ge=1, le=1e9)] = 1.0  # of the time of a step over those seen, the last over the first
    others: tuple[OtherTraining, ...] = ()
    writes: tuple[str, ...] = ()  # what it made or wrote outside of its working folder
    in_place: bool = False  # whether its trials work in its own folder instead of a copy
    updates_itself: bool = False  # whether it makes its updates by hand, without an optimizer of torch's
    ranks: Count = 1  # processes that train together, started by its launcher
    calls_models: bool = True  # whether it calls modules to train them; some call only their forward()

    @property
    def loader(self) -> SeenLoader | None:
        """The loader whose batches are trained on; None if there is none, or several."""
        feeding = [loader for loader in self.loaders if loader.feeds]
        return feeding[0] if len(feeding) == 1 else None

    @property
    def scales_loss(self) -> bool:
        """Whether the loss can be scaled before gradients are computed: in a script nobody does."""
        return False

    @property
    def shows_updates(self) -> bool:
        """Whether single updates can be compared: it must show a loss, and train in one process.

        No other's state is put back. One that makes its updates itself is known to have made one when it calls its
        model again, so it must have one.
        """
        return self.has_loss and self.ranks == 1 and bool(self.models or not self.updates_itself)

    def most_steps(self, planned: int) -> float:
        """Return how many steps can be made of a training that plans so many: a script's own loop ends where it ends.

        Args:
            planned: As far as that is known.
        """
        return planned

    def why_not(self, acts_in: Sequence[Where], stage: EffectStage, risk: Risk) -> str:
        """Return why a knob cannot act in this script; empty if nothing that was seen of the script is against it.

        Args:
            acts_in: Where it can act.
            stage: When it takes effect.
            risk: What it may do to the numbers.
        """
        if "script" not in acts_in:
            return _NOT_IN_SCRIPTS
        if not self.models and stage in ("model", "step"):
            return _NO_MODEL
        if not self.calls_models and stage in ("model", "step"):
            return _NOT_CALLED
        if self.updates_itself and stage == "optimizer":
            return _NO_OPTIMIZER
        if not (self.has_loss or self.metric) and risk != "exact":
            return _NO_LOSS
        return ""

    def first_look(self, facts: TrainingFacts, space: SearchSpace) -> ScriptSeen | None:
        """Return what is told of the look at its first steps, knobs that are not tuned included."""
        from autoaccel.records.progress import ScriptSeen  # which imports this module

        return ScriptSeen(self, facts.planned_steps, tuple(space.open), space.closed, facts.metric, facts.direction)

    def changed(self, **fields: Any) -> ScriptFacts | None:
        """Return this with other values of some fields, as the facts of a training and a recipe have it."""
        return msgspec.structs.replace(self, **fields)

    def changed_by(self, said: SaidOfScript) -> dict[str, Any]:
        """Return which fields of its TrainingFacts are others, and their values, once a person has said something."""
        # What its argument parser has found is not written down: arguments may be secret.
        fields = {"arguments": said.arguments, "in_place": said.in_place, "metric": said.metric, "parsed": {}}
        found: dict[str, Any] = {}
        if said.steps is not None:
            fields |= {"planned_steps": said.steps, "planned_from": said.steps_from}
            per_epoch = min(said.steps, self.steps_per_epoch or said.steps)
            found |= {"epochs": max(1, round(said.steps / per_epoch)), "steps_per_epoch": per_epoch}
        if said.metric is not None and said.direction is not None:
            found |= {"metric": said.metric.name, "direction": said.direction}
        return {**found, "script": self.changed(**fields)}

    def must_be_script(self, refusal: str) -> ScriptFacts:
        """Return this, where something is for scripts only."""
        return self


class PartsAtHand:
    """What holds of each training that build() returns: our loop makes its steps, of parts that are at hand."""

    does: tuple[str, ...] = ()
    parsed: dict[str, str] = {}
    arguments: tuple[ScriptArgument, ...] = ()
    loader: SeenLoader | None = None
    metric: MetricSource | None = None  # Training has it
    planned_steps: int | None = None  # Training has them
    planned_from = ""
    step_seconds: float | None = None  # no step was seen before the baseline is measured
    in_place = False
    updates_itself = False
    scales_loss = True
    shows_updates = True

    def most_steps(self, planned: int) -> float:
        """Return how many steps can be made: our loop goes on as long as it is asked to."""
        return math.inf

    def why_not(self, acts_in: Sequence[Where], stage: EffectStage, risk: Risk) -> str:
        """Return that no knob is closed for what builds the training."""
        return ""

    def first_look(self, facts: TrainingFacts, space: SearchSpace) -> ScriptSeen | None:
        """Return that nothing is told: whoever has written build() knows what it returns."""
        return None

    def changed(self, **fields: Any) -> ScriptFacts | None:
        """Return that the facts of the training and a recipe have nothing of it."""
        return None

    def changed_by(self, said: SaidOfScript) -> dict[str, Any]:
        """Return that nothing is changed: what build() returns says that itself."""
        return {}

    def must_be_script(self, refusal: str) -> NoReturn:
        """Refuse what is for scripts only.

        Raises:
            BadRequestError: With these words.
        """
        raise BadRequestError(refusal)


PARTS_AT_HAND = PartsAtHand()

Seen = ScriptFacts | PartsAtHand


def seen_of(script: ScriptFacts | None) -> Seen:
    """Return what answers for a training, given what was seen of it if it is a script."""
    return script or PARTS_AT_HAND
