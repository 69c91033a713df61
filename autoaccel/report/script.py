"""What was seen of a training script, in words: a table on a terminal, lines in a log."""

from __future__ import annotations

import collections
from pathlib import Path

from rich.table import Table
from rich.text import Text

from autoaccel.records.progress import ScriptSeen
from autoaccel.records.script import BY_HAND, SeenLoader, SeenOptimizer
from autoaccel.records.seen import ScriptFacts
from autoaccel.units import format_duration

_MAX_WRITES = 5
_MENTIONED_SHARE = 0.1  # of the time that was seen

Row = tuple[str, str]
"""What is told, and that."""


def script_rows(seen: ScriptSeen) -> list[Row]:
    """Return what was seen of a script and what can be tuned in it; several rows of one kind follow one another."""
    script = seen.script
    rows = [("model", _model_words(script, number)) for number in range(len(script.models))]
    rows += [("optimizer", _optimizer_words(one)) for one in script.optimizers]
    rows += [("loader", _loader_words(loader)) for loader in script.loaders]
    rows.append(("step", _step_words(script)))
    rows.append(("planned", _planned_words(script, seen.planned_steps)))
    rows += [("besides", words) for words in _besides(script)]
    if script.does:
        rows.append(("does already", ", ".join(script.does)))
    if script.writes:
        rows.append(("writes", _writes_words(script)))
    rows.append(("judged by", _metric_words(seen)))
    rows.append(("can be tuned", ", ".join(seen.open) or "nothing"))
    reasons = collections.defaultdict(list)
    for name, reason in seen.closed.items():
        reasons[reason].append(name)
    rows += [("not tuned", f"{', '.join(names)}: {reason}") for reason, names in reasons.items()]
    return rows


def script_table(rows: list[Row]) -> Table:
    """Return the rows as a table in which a kind is named once."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    kinds = [kind for kind, _ in rows]
    for number, (kind, words) in enumerate(rows):
        first = number == 0 or kinds[number - 1] != kind
        style = "dim" if kind == "not tuned" else ""
        table.add_row(Text(kind if first else "", style="bold"), Text(words, style=style))
    return table


def _at(where: str) -> str:
    return f" ({where})" if where else ""


def _model_words(script: ScriptFacts, number: int) -> str:
    model = script.models[number]
    frozen = "" if model.trained == model.parameters else f", of which {model.trained:,} are trained"
    return f"{model.kind}, {model.parameters:,} parameters{frozen}{_at(model.where)}"


def _optimizer_words(optimizer: SeenOptimizer) -> str:
    count = f", {optimizer.parameters:,} parameters" if optimizer.parameters else ""
    return f"{optimizer.kind}{count}{_at(optimizer.where)}"


def _loader_words(loader: SeenLoader) -> str:
    key = loader.key
    samples = "" if key.samples is None else f" of {key.samples:,} samples"
    size = "" if key.batch_size is None else f", batches of {key.batch_size}"
    length = "" if loader.batches is None else f", {loader.batches:,} an epoch"
    use = "trained on" if loader.feeds else "evaluated on"
    return f"{use}: {key.dataset}{samples}{size}{length}, {loader.workers} workers{_at(loader.where)}"


def _step_words(script: ScriptFacts) -> str:
    names = [script.optimizers[one].kind for one in script.cycle]
    updates = f"{len(names)} updates: {', '.join(names)}"
    if len(names) == 1:
        updates = "an update by hand" if names[0] == BY_HAND else f"an update of {names[0]}"
    seen = f"{updates}; {format_duration(script.step_seconds)} each, seen {script.steps_seen:,} times"
    if script.ranks > 1:
        seen += f" on the first of {script.ranks} ranks"
    if not script.evaluations:
        return seen
    return f"{seen}, {script.evaluations:,} with an evaluation or a checkpoint beside them, which is not measured"


def _besides(script: ScriptFacts) -> list[str]:
    """Return what the script does beside the steps that are looked at."""
    found = []
    if script.other_seconds > _MENTIONED_SHARE * script.seen_seconds:
        found.append(
            f"evaluations, rollouts or checkpoints: {format_duration(script.other_seconds)} of the "
            f"{format_duration(script.seen_seconds)} that were seen; times of whole runs are told without them"
        )
    if script.growth > 1:
        found.append(
            f"its steps take longer and longer, {script.growth:.1f} times as long after {script.steps_seen:,} of them; "
            "times of whole runs are told as if they did not"
        )
    for other in script.others:
        when = "before these steps" if other.comes_first else "after these steps"
        steps = "another training" if other.steps is None else f"{other.steps:,} steps"
        of = f" of {other.optimizers}" if other.optimizers else ""
        found.append(f"{when}, {steps}{of}{_at(other.where)}: not measured")
    return found


def _writes_words(script: ScriptFacts) -> str:
    home = f"{Path.home()}/"
    paths = [f"~/{path.removeprefix(home)}" if path.startswith(home) else path for path in script.writes]
    more = f" and {len(paths) - _MAX_WRITES} more" if len(paths) > _MAX_WRITES else ""
    where = "its working folder" if script.in_place else "the copy of its working folder"
    return f"outside of {where}, in each trial: {', '.join(paths[:_MAX_WRITES])}{more}"


def _metric_words(seen: ScriptSeen) -> str:
    source = seen.script.metric
    if source is not None:
        return f"{seen.metric} ({seen.direction}): {source.words}"
    return "training loss" if seen.script.has_loss else "nothing: the script never calls backward() on a loss"


def _planned_words(script: ScriptFacts, planned_steps: int) -> str:
    epoch = "" if script.steps_per_epoch is None else f", {script.steps_per_epoch:,} an epoch"
    if script.planned_steps is None:
        return (
            f"{planned_steps:,} steps{epoch}: assumed, because the loops around its updates cannot be read; "
            "say it with --steps N or --hours H"
        )
    return f"{script.planned_steps:,} steps{epoch}: {script.planned_from}"
