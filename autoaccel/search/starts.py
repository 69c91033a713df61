"""How much longer the first steps take where something is compiled or pruned: in a first process, and in later ones."""

from __future__ import annotations

import statistics
from collections.abc import Collection
from dataclasses import dataclass, field

from autoaccel.records.messages import Failure
from autoaccel.records.settings import Settings, changed, settings_key
from autoaccel.records.trial import Measurement, Trial
from autoaccel.space.knobs import KNOBS, compiled_part, compiles, is_of_compiling, slow_starting_knobs
from autoaccel.statistics.runs import WARM_SHARE, CompileSeconds


def start_of(settings: Settings, first: Measurement) -> CompileSeconds:
    """Return the cost of slower first steps, from a process that found nothing compiled; that of warm ones is assumed.

    Every process pays for what it imports and for the steps before a model shrinks, and for all of its slower first
    steps where nothing is compiled.
    """
    seconds = first.compile_seconds
    if not compiles(settings):
        return CompileSeconds(seconds, seconds)
    always = first.lazy_import_seconds + first.late_seconds
    return CompileSeconds(seconds, always + WARM_SHARE * (seconds - always))


@dataclass
class _CompiledStarts:
    """What processes that compile the same have shown."""

    slow_knobs: tuple[str, ...]
    cold: float  # the most that a machine's first process took
    assumed: float  # of a warm one
    warm: list[float] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)  # that have it in their cache

    @property
    def seconds(self) -> CompileSeconds:
        warm = statistics.median(self.warm) if self.warm else self.assumed
        return CompileSeconds(self.cold, min(self.cold, warm))


class SlowStarts:
    """What trials have shown of the first steps of settings that compile or prune.

    Settings with the same compiled model share its cache: the first process is the cold one, all others are warm.
    """

    def __init__(self, compile_seconds: float | None = None) -> None:
        """Begin with nothing seen.

        Args:
            compile_seconds: That a first compilation of the whole model is expected to take, if known.
        """
        self._compile_seconds = compile_seconds
        self._seen: dict[str, _CompiledStarts] = {}  # by compiled part
        self._given_up: list[Settings] = []

    def learn(self, settings: Settings, outcome: Measurement, host: str = "") -> None:
        """Take a finished trial of settings that start slowly into account, measured on this host."""
        part = settings_key(compiled_part(settings))
        first = start_of(settings, outcome)
        seen = self._seen.setdefault(part, _CompiledStarts(slow_starting_knobs(settings), first.cold, first.warm))
        if host in seen.hosts and compiles(settings):
            seen.warm.append(first.cold)  # it found what another process of this host has left
        elif first.cold > seen.cold:
            seen.cold, seen.assumed = first
        seen.hosts.add(host)

    def learn_warm(self, settings: Settings, seconds: float) -> None:
        """Take a process into account that found compiled what trials of these settings have left."""
        if compiles(settings) and (seen := self._seen.get(settings_key(compiled_part(settings)))):
            seen.warm.append(seconds)

    def known(self, settings: Settings) -> CompileSeconds | None:
        """Return what slower first steps cost where the same is compiled; None if that was not seen."""
        seen = self._seen.get(settings_key(compiled_part(settings)))
        return seen.seconds if seen else None

    def expected(self, settings: Settings) -> CompileSeconds:
        """Return what slower first steps are expected to cost settings that start slowly."""
        if (known := self.known(settings)) is not None:
            return known
        slow_knobs = slow_starting_knobs(settings)
        if alike := [seen.seconds for seen in self._seen.values() if seen.slow_knobs == slow_knobs]:
            colds, warms = zip(*alike, strict=True)
            return CompileSeconds(statistics.median(colds), statistics.median(warms))
        usual = max(self._usual(name, settings) for name in slow_knobs)
        return CompileSeconds(usual, WARM_SHARE * usual if compiles(settings) else usual)

    def _usual(self, name: str, settings: Settings) -> float:
        """Return how much longer a knob makes the first steps as a rule."""
        is_whole_model = name == "compile.mode" and settings.get("compile.region", "model") == "model"
        if is_whole_model and self._compile_seconds is not None:
            return self._compile_seconds
        return KNOBS[name].start_seconds or 0.0

    def explain(self, failed: Trial, baseline: Settings, works: Collection[Settings]) -> bool:
        """Return whether a trial failed because it compiles for too long; what is compiled alike is then given up.

        Args:
            failed: The trial.
            baseline: The user's settings.
            works: Other settings, which did not fail: what else the trial changes is not to blame if it worked there.
        """
        if not isinstance(failed.outcome, Failure) or failed.outcome.kind != "slow start":
            return False
        others = {
            name: value for name, value in changed(failed.settings, baseline).items() if not is_of_compiling(name)
        }
        if not all(any(one.get(name) == value for one in works) for name, value in others.items()):
            return False
        self._give_up(failed.settings)
        return True

    def _give_up(self, settings: Settings) -> None:
        alike = {name: value for name, value in settings.items() if is_of_compiling(name)}
        if alike.get("compile.mode") == "default":
            del alike["compile.mode"]  # every other mode tries harder, and takes longer
        self._given_up.append(alike)

    def is_given_up(self, settings: Settings) -> bool:
        """Whether something that is compiled alike took too long."""
        return compiles(settings) and any(alike.items() <= settings.items() for alike in self._given_up)
