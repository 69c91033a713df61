"""Change: settings against the user's own, in a search space."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from autoaccel.records.knob import Risk
from autoaccel.records.settings import Settings, changed, settings_key
from autoaccel.records.space import SearchSpace
from autoaccel.space.knobs import KNOBS, RISKS, count_processes, idle_because, risky_part


@dataclass(frozen=True)
class Change:
    """Settings against the user's own, in a search space.

    Attributes:
        settings: One value per knob, those included that are the user's own.
        own: The user's own settings.
        space: What is searched, which says what knobs do to this training.
    """

    settings: Settings
    own: Settings
    space: SearchSpace

    @property
    def values(self) -> Settings:
        """The settings that are not the user's own."""
        return changed(self.settings, self.own)

    @property
    def names(self) -> tuple[str, ...]:
        """The knobs of these, in the order of the settings."""
        return tuple(self.values)

    @property
    def key(self) -> str:
        """A text that is equal for equal settings."""
        return settings_key(self.settings)

    @property
    def processes(self) -> int:
        """How many processes of one machine train side by side."""
        return count_processes(self.settings)

    @property
    def risk(self) -> Risk:
        """What the riskiest of its settings may do to the numbers."""
        return max(map(self._risk_of, self.names), key=RISKS.index, default="exact")

    @property
    def inexact_part(self) -> Settings:
        """Its settings that may change numbers. Two changes with the same such part train to the same metric."""
        return risky_part(self.settings, self.own, self.space.inexact)

    @property
    def redrawn(self) -> tuple[str, ...]:
        """The knobs that change nothing but which random numbers samples are drawn with."""
        return tuple(name for name in self.names if self._risk_of(name) == "redraws")

    @property
    def spares_system(self) -> bool:
        """Whether all that it does is that the operating system does less."""
        return bool(self.names) and all(KNOBS[name].spares_system for name in self.names)

    @property
    def sparing(self) -> Change:
        """What of it does nothing but that the operating system does less."""
        return self.without(*(name for name in self.names if not KNOBS[name].spares_system))

    def to(self, settings: Settings) -> Change:
        """Return other settings against the same, in the same space."""
        return Change(settings, self.own, self.space)

    def only(self, name: str) -> Change:
        """Return one of its settings, alone."""
        return self.to({**self.own, name: self.settings[name]})

    def without(self, *names: str) -> Change:
        """Return what is left if knobs have the user's own values, and what does nothing without them has its own."""
        return self.to(_without(names, self.settings, self.own))

    def at_most(self, risk: Risk) -> Change | None:
        """Return what is left without all that is riskier than this; None where a person wishes some of that."""
        riskier = [name for name in self.names if RISKS.index(self._risk_of(name)) > RISKS.index(risk)]
        wished = self.space.fixed
        if any(wished.get(name, self.own[name]) != self.own[name] for name in riskier):
            return None
        return self.without(*riskier)

    def _risk_of(self, name: str) -> Risk:
        return self.space.risks.get(name, KNOBS[name].risk)


def _without(names: Collection[str], settings: Settings, own: Settings) -> Settings:
    kept = {**settings, **{name: own[name] for name in names}}
    for _ in kept:  # what rests may be what another one needs
        idle = [name for name in changed(kept, own) if idle_because(KNOBS[name], kept)]
        if not idle:
            break
        kept |= {name: own[name] for name in idle}
    return kept
