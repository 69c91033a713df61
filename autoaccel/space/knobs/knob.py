"""Knob: one thing that may be changed, as data and small functions of a KnobContext: the machine and the training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from autoaccel.records.by_hand import ByHand
from autoaccel.records.knob import EffectStage, Group, Risk, Where
from autoaccel.records.machine import Machine
from autoaccel.records.profile import Demand
from autoaccel.records.seen import PARTS_AT_HAND, Seen
from autoaccel.records.settings import Value
from autoaccel.records.workload import TrainingFacts

NO_EFFECT_OF_ITS_OWN = "autoaccel.runtime.knobs.effect:Effect"
"""The effect of a knob that says how the knob it needs is to do its work."""


@dataclass(frozen=True)
class KnobContext:
    """What the answers of a knob depend on: the machine, the training once it is known, its demand once measured."""

    machine: Machine
    training: TrainingFacts | None = None
    demand: Demand | None = None

    @property
    def torch_device(self) -> str:
        """The device that the training runs on, as torch names it and as far as it is known, such as "cuda:4"."""
        if self.training is not None:
            return self.training.device
        return self.machine.torch.device if self.machine.torch else "cpu"

    @property
    def device(self) -> str:
        """The type of that device: "cpu", "cuda", "mps" or "xpu"."""
        return self.torch_device.partition(":")[0]

    @property
    def seen(self) -> Seen:
        """What answers whatever differs between a script and what build() returns."""
        return self.training.seen if self.training is not None else PARTS_AT_HAND

    @property
    def found(self) -> Mapping[str, Value]:
        """What the user's own code has made of its process, by knob: what can be read there."""
        return self.training.found if self.training is not None else {}


Test: TypeAlias = Callable[[Value], bool] | None
"""Whether a value of a knob is one of those meant; see `Knob.passes`."""

ON: Test = None
"""The test for every value except the one at which the knob is off."""


@dataclass(frozen=True)
class Need:
    """Another knob without which a knob does nothing: it is not varied unless that one has a suitable value."""

    knob: str
    suits: Test
    words: str  # what the other must be, such as "above 0"


@dataclass(frozen=True)
class Clash:
    """Values of this knob and of another that cannot be had together, and why."""

    mine: Test
    knob: str
    theirs: Test
    reason: str
    # Asked of such a pair of values.
    where: Callable[[KnobContext, Value, Value], bool] = lambda context, mine, theirs: True


def _available(context: KnobContext) -> str:
    return ""


def _nothing(value: Value, context: KnobContext) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class Knob:
    """One thing that may be changed.

    Attributes:
        name: `word.what`; it is what people type and what recipes hold.
        group: What it is about.
        effect_stage: When it takes effect.
        risk: What it may do to the numbers, wherever nothing is known of the training; see `risk_at`.
        help: What it does, in one sentence.
        helps_when: The condition under which it is known to help.
        effect: `module:Class` of what it does, in the runtime.
        values: Every value worth trying in a context, the default included.
        usual: What happens in a context if nobody changes anything; `default` is what holds for the user's training.
        off: The value at which it does nothing, so that there is nothing to show; None if it does something at every
            value. Ask `is_off`.
        why_unavailable: Why no other value than the default works in a context, and what would change that; empty if
            one does.
        why_untried: Why none of the other values that work in a context is worth a trial; empty if one is.
        environment: Variables that carry a value into a process; not asked of the value at which it is off. Of a knob
            whose effect stage is "launch" or "environment" they must be set when it starts; of others its libraries
            can still be told.
        modules: What torch imports on the first use of any value at which it is not off.
        value_range: For numbers: the smallest and largest that may be asked for in a context, both included. A person
            may set any between them, not only those worth trying.
        own_range: For numbers that the user's own code may choose: the smallest and largest that a file may say it has
            chosen, on whatever machine. None: as value_range.
        why_wrong: For texts: why a value besides those worth trying is not one; empty if it is. None: no other is.
        needs: Knobs that it does nothing without.
        clashes: What it cannot be combined with.
        start_seconds: By how much the first steps of a run take longer than later ones at any value at which it is not
            off, as far as that can be expected before it was seen; None where they take no longer.
        decides_on_loading: Whether it decides who loads a sample, or when: an exact one is so only where that does not
            matter.
        divides_batches: Whether it computes a step's batch in parts: that only rounds differently, but changes the
            training where the model normalises by statistics of a batch.
        acts_in: Whether it can act in our own loop, and in a script that makes its steps itself.
        usual_effect: Standard deviation of the logarithm of the speed-up that it causes, over trainings of which
            nothing is known. A guess, where it is not said to come from the benchmark's workloads, that only decides
            where a search looks first: its trials correct it.
        by_hand: What a person would write to have the effect of a value on a type of device, such as "cuda"; None: no
            line has, or variables have.
        spares_system: Whether all that it changes is that the operating system does less, so that what is saved of its
            time tells whether steps are faster, whatever the machine does meanwhile.
        basic: Value of which all others but the one at which it is off do everything, and more: what it wins is
            expected of them, too. None: nothing is known of how values compare.
    """

    name: str
    group: Group
    effect_stage: EffectStage
    risk: Risk
    help: str
    helps_when: str
    effect: str
    values: Callable[[KnobContext], tuple[Value, ...]]
    usual: Callable[[KnobContext], Value]
    off: Value | None = None
    why_unavailable: Callable[[KnobContext], str] = _available
    why_untried: Callable[[KnobContext], str] = _available
    environment: Callable[[Value, KnobContext], Mapping[str, str]] = _nothing
    modules: tuple[str, ...] = ()
    value_range: Callable[[KnobContext], tuple[float, float]] | None = None
    own_range: tuple[float, float] | None = None
    why_wrong: Callable[[Value, KnobContext], str] | None = None
    needs: tuple[Need, ...] = ()
    clashes: tuple[Clash, ...] = ()
    start_seconds: float | None = None
    decides_on_loading: bool = False
    divides_batches: bool = False
    usual_effect: float = 0.1
    acts_in: tuple[Where, ...] = ("loop",)
    spares_system: bool = False
    basic: Value | None = None
    by_hand: Callable[[Value, str], ByHand] | None = None

    def why_closed(self, context: KnobContext) -> str:
        """Return why no other value than the default works in a context, or in a script at all; empty if one does."""
        reason = context.seen.why_not(self.acts_in, self.effect_stage, self.risk_at(context))
        return reason or self.why_unavailable(context)

    def default(self, context: KnobContext) -> Value:
        """Return the user's own value: what their code has set, or what happens if nobody changes anything."""
        return context.found.get(self.name, self.usual(context))

    def is_off(self, value: Value) -> bool:
        """Whether the knob does nothing at this value."""
        return value == self.off

    def passes(self, test: Test, value: Value) -> bool:
        """Whether a value of this knob passes the test of a `Need` or a `Clash`."""
        return not self.is_off(value) if test is None else test(value)

    def why_inexact(self, context: KnobContext) -> str:
        """Return why it changes the numbers of the training in a context, though it is exact elsewhere; or nothing."""
        if self.risk != "exact" or not self.decides_on_loading or context.training is None:
            return ""
        return context.training.loading_matters

    def risk_at(self, context: KnobContext) -> Risk:
        """Return what it may do to the numbers of the training in a context."""
        if self.divides_batches and context.training is not None:
            return "changes_training" if context.training.has_batch_statistics else "rounding"
        if not self.why_inexact(context):
            return self.risk
        return "redraws" if context.training is not None and context.training.loading_redraws else "changes_training"


def switch(context: KnobContext) -> tuple[Value, ...]:
    """Return the values of what is off unless somebody switches it on."""
    return (False, True)


def always(value: Value) -> Callable[[KnobContext], Value]:
    """Return a default that is the same everywhere."""
    return lambda context: value


def choices(*values: Value) -> Callable[[KnobContext], tuple[Value, ...]]:
    """Return values that are the same everywhere."""
    return lambda context: values


def equals(*wanted: Value) -> Callable[[Value], bool]:
    """Return the test for one of these values."""
    return lambda value: value in wanted


def why_no_gpu(context: KnobContext) -> str:
    """Return why something that only CUDA has is unavailable; empty if the training runs on a GPU."""
    return "" if context.device == "cuda" else "the training does not run on a CUDA GPU"


def gpus_of(context: KnobContext) -> int:
    """Return how many GPUs this process may use; 0 where the training does not run on one."""
    if context.device != "cuda":
        return 0
    shown = context.machine.torch.gpus if context.machine.torch else ()
    return len(shown or context.machine.gpus)


def usual_threads(context: KnobContext) -> int:
    """Return how many threads torch takes for an operator if nobody says."""
    return context.machine.torch.intra_op_threads if context.machine.torch else context.machine.usable_cores


def baseline_threads(context: KnobContext) -> int:
    """Return how many the user's code leaves, whatever a Training declares beside it."""
    return int(context.found.get("threads.intra_op", usual_threads(context)))


def powers_of_two(most: int) -> set[int]:
    """Return 1, 2, 4, ... up to `most`, included."""
    return {2**exponent for exponent in range(most.bit_length()) if 2**exponent <= most}
