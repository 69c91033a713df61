"""Recipe: winning settings with what proves them. Data from strangers: nothing in it is ever executed."""

from __future__ import annotations

import html
import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

from autoaccel.records.accuracy import Accuracy
from autoaccel.records.base import Record, decode, encode, read_json
from autoaccel.records.bounds import (
    Count,
    NotNegative,
    Number,
    PositiveSeconds,
    Seconds,
    Sentence,
    SignedSeconds,
    Speedup,
)
from autoaccel.records.machine import Machine
from autoaccel.records.messages import ModelSize
from autoaccel.records.options import OWN_SAMPLER
from autoaccel.records.progress import StageName
from autoaccel.records.seen import ScriptFacts, Seen, seen_of
from autoaccel.records.settings import Settings, Value, changed, format_value
from autoaccel.records.trial import Comparison
from autoaccel.records.workload import UntypedWorkload, Workload, with_workload_type
from autoaccel.text import printable
from autoaccel.units import format_duration

SCHEMA: Literal["autoaccel/recipe/1"] = "autoaccel/recipe/1"


StopReason = Literal[
    "nothing to win", "nothing pays", "out of time", "everything tried", "trials made", "proof left open"
]
"""Why a search ended. With "nothing to win" it did not begin; with "proof left open" a run was resumed for a proof."""


class Constraint(Record, frozen=True):
    """How much worse the metric may get: a share of the baseline's if relative, else in the metric's own unit."""

    max_drop: NotNegative
    relative: bool


class Baseline(Record, frozen=True):
    """The user's own settings and what they measured."""

    settings: Settings
    step_seconds: PositiveSeconds
    startup_seconds: Seconds
    compile_seconds: Seconds
    samples_per_second: NotNegative | None
    peak_bytes: Count


class RunSpeedup(Record, frozen=True):
    """How much faster the whole run is, start-up and compilation included; its interval is as sure as the steps'."""

    speedup: Speedup
    low: NotNegative
    high: NotNegative


class Projection(Record, frozen=True):
    """Time of the whole planned run, on average over all that will be made: start-up + compile + steps x step time."""

    planned_steps: Count
    startup_seconds: Seconds
    compile_seconds: Seconds  # of an average run: the first compiles, later ones find its code
    step_seconds: PositiveSeconds
    total_seconds: PositiveSeconds
    baseline_total_seconds: PositiveSeconds
    break_even_steps: Count | None = None  # from so many on the recipe's run is the shorter; None: never
    run: RunSpeedup | None = None  # where settings were proven
    first_run_seconds: Seconds | None = None  # whose code nobody has compiled before; None: not known
    later_run_seconds: Seconds | None = None  # with that code


class ValueResult(Record, frozen=True):
    """What became of one value of the search space that the recipe does not have."""

    knob: str
    value: Value
    trials: Count  # that had it; 0: it was not tried
    speedup: Speedup | None  # of the best of them; None if none could be compared
    reason: str  # why the recipe does not have it


class StageTimes(Record, frozen=True):
    """The time that a stage of the run was planned to take when it began, and the time that it took."""

    stage: StageName
    planned_seconds: SignedSeconds
    spent_seconds: SignedSeconds


class SearchSummary(Record, frozen=True):
    """What the search cost and why it ended."""

    trials: Count
    failed: Count
    infeasible: Count
    spent_seconds: SignedSeconds
    budget_seconds: SignedSeconds
    seed: Count
    space: str
    ended: Sentence
    trainings: int = msgspec.field(name="runs")  # that a saved second was counted for
    proven_after_seconds: SignedSeconds | None  # since the start, when the first recipe's speed was proven; or None
    disturbed_share: NotNegative  # of the turns
    spent_on: dict[str, SignedSeconds]  # seconds: steps measured, warm-up, compilation, start-up, and everything else
    importance: dict[str, Number] = {}  # knob -> share of what decides whether a trial is a good one; the largest first
    values: tuple[ValueResult, ...] = ()  # all that the recipe does not have
    stages: tuple[StageTimes, ...] = ()  # in their order; together they are spent_seconds
    stop: StopReason | None = None  # what `ended` says in words; None in recipes from before it was written down
    sampler: str = OWN_SAMPLER  # what proposed the trials
    recipe_after_seconds: SignedSeconds | None = None  # since the start, when the first recipe was proven and written
    unfinished: bool = False  # whether the run was to continue when this was written
    study: str = ""  # name of the Optuna study in study.journal; empty if machines shared one, or nothing was searched


class Contribution(Record, frozen=True):
    """What one setting of a recipe adds to all others: the speed-up over the recipe without it, and its interval."""

    setting: str
    value: Value
    speedup: Speedup  # throughput of the recipe over that of the recipe without this setting
    low: NotNegative
    high: NotNegative
    measured: bool  # in fresh pairs of processes; False: it is what the search's trials let expect


class Interaction(Record, frozen=True):
    """Two settings of a recipe that together are worth another factor than both alone."""

    settings: tuple[str, str]
    factor: NotNegative  # speed-up of both over the product of each alone; above 1: they help each other
    low: NotNegative
    high: NotNegative


class OpenProof(Record, frozen=True):
    """Settings whose proof the budget ended, though they may be better than the recipe's: it can be resumed."""

    settings: Settings
    seconds: SignedSeconds  # that the rest of it is expected to take, a new start included


class Recipe(Record, frozen=True):
    """Winning settings with what proves them; the baseline's own where nothing was proven faster."""

    schema: Literal["autoaccel/recipe/1"]
    created: str  # ISO 8601, UTC
    summary: Sentence  # the verdict in one sentence
    workload: Workload
    machine: Machine
    settings: Settings
    baseline: Baseline
    comparison: Comparison
    constraint: Constraint
    accuracy: Accuracy | None
    projection: Projection
    search: SearchSummary
    versions: dict[str, str]
    device: str = ""  # that was trained on, as torch names it; empty in recipes from before it was written down
    model_size: ModelSize | None = None  # if the settings make the model smaller
    contributions: tuple[Contribution, ...] = ()  # where two or more settings changed; the largest first
    interaction: Interaction | None = None  # the strongest, where the contributions' product is not the whole
    open_proof: OpenProof | None = None  # what `autoaccel tune --resume` continues; None if nothing
    script: ScriptFacts | None = None  # what was seen of the script, if it was made for one
    live: bool = False  # whether a training found it while it ran: its pairs are blocks of that training's own steps

    @property
    def seen(self) -> Seen:
        """What answers whatever differs between a script and what build() returns."""
        return seen_of(self.script)

    @property
    def in_place(self) -> bool:
        """Whether trainings worked in the script's own folder while it was measured."""
        return self.seen.in_place

    @property
    def is_baseline(self) -> bool:
        """Whether nothing was proven faster, so that the settings are the user's own."""
        return self.settings == self.baseline.settings

    def _repr_html_(self) -> str:
        """Return the verdict and what to change, as a notebook shows it."""
        found = {one.setting: one for one in self.contributions}
        baseline = self.baseline.settings

        def row(cells: Iterable[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(printable(cell))}</{tag}>" for cell in cells) + "</tr>"

        def contributes(name: str) -> str:
            one = found.get(name)
            if one is None:
                return ""
            return f"{one.speedup:.2f}x ({one.low:.2f} to {one.high:.2f}{'' if one.measured else ', estimated'})"

        rows = [
            row(
                (
                    name,
                    format_value(baseline[name]) if name in baseline else "",
                    format_value(value),
                    contributes(name),
                ),
                "td",
            )
            for name, value in changed(self.settings, baseline).items()
        ]
        table = f"<table>{row(('change', 'from', 'to', 'contributes'), 'th')}{''.join(rows)}</table>" if rows else ""
        now = self.projection
        run = f"Whole run: {format_duration(now.baseline_total_seconds)} to {format_duration(now.total_seconds)}"
        run += f" ({now.run.low:.2f}x to {now.run.high:.2f}x as fast)." if now.run else "."
        return f"<p><b>{html.escape(printable(self.summary))}</b></p>{table}<p>{run if rows else ''}</p>"


def read_recipe(path: Path) -> Recipe:
    """Return the recipe in a file.

    Raises:
        BadRequestError: If it is missing or is no recipe.
    """
    return read_json(path, Recipe, "a recipe (schema autoaccel/recipe/1)", _upgraded)


def _upgraded(recipe: bytes) -> bytes:
    """Return a recipe as it is written today; earlier versions left out the type of its workload."""
    return encode(with_workload_type(decode(recipe, object)))


def recipe_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of recipe.json; `recipe.schema.json` in this package is this, written out.

    Whatever `read_recipe` reads fits it, recipes of earlier versions included.
    """
    (reference, _), definitions = msgspec.json.schema_components(
        (Recipe, UntypedWorkload), ref_template="#/$defs/{name}"
    )
    for definition in definitions.values():
        if "description" in definition:  # msgspec before 0.23 leaves a docstring's indentation in it
            definition["description"] = inspect.cleandoc(definition["description"])
    of_recipe = definitions["Recipe"]["properties"]
    of_recipe["workload"] = {"anyOf": [of_recipe["workload"], {"$ref": "#/$defs/UntypedWorkload"}]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **reference, "$defs": definitions}
