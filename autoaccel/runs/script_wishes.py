"""What a person says of a script: checked before anything runs, and then part of what is known of its training."""

from __future__ import annotations

import re

import msgspec

from autoaccel.errors import BadRequestError
from autoaccel.records.options import OPTIONS, TuneOptions
from autoaccel.records.recipe import Recipe
from autoaccel.records.script_metric import FileMetric, MetricSource, PrintedMetric, ReportedMetric
from autoaccel.records.seen import SaidOfScript
from autoaccel.records.workload import TrainingFacts, Workload
from autoaccel.runs.script_arguments import parse_arguments, tuned_arguments
from autoaccel.space.knobs.arguments import is_harmless

_HOUR = 3600.0


def check_wishes_for(workload: Workload, options: TuneOptions) -> None:
    """Refuse what cannot be said of a training, as far as that is known before it runs.

    Raises:
        BadRequestError: Naming the option, what must hold and what was found.
    """
    said = [option.flag for option in OPTIONS if option.of_scripts and getattr(options, option.name)]
    if said:
        workload.must_be_script(f"{', '.join(said)}: for a script only; what build() returns says that itself.")
    if options.steps is not None and options.hours is not None:
        raise BadRequestError("--steps and --hours both say how long the script will train; choose one of them.")
    if options.hours is not None and not options.hours > 0:
        raise BadRequestError(f"--hours must be above 0, got {options.hours:g}.")
    source = metric_source(options)
    risky = [name for name in parse_arguments(options.args) if not is_harmless(name)]
    if risky and source is None and not options.resume:  # else what was said when the run began holds
        raise BadRequestError(
            f"--arg {risky[0]} may change the training, and the training loss cannot judge that: it falls where a "
            "regularizer is switched off. Name another metric: --metric 'val_acc: ([0-9.]+)' --direction maximize, or "
            "--metric-file."
        )


def metric_source(options: TuneOptions) -> MetricSource | None:
    """Return where a script says how good its model is; None: its training loss does.

    Raises:
        BadRequestError: If what a person has typed does not say that.
    """
    text, file = options.metric, options.metric_file
    if text is not None and file is not None:
        raise BadRequestError("--metric and --metric-file both say what judges the script; choose one of them.")
    if text is None and file is None:
        if options.direction is not None:
            raise BadRequestError("--direction requires --metric or --metric-file: a training loss is minimized.")
        return None
    if options.direction is None:
        flag = "--metric" if file is None else "--metric-file"
        raise BadRequestError(f"{flag} requires --direction maximize or --direction minimize: which way is better.")
    return FileMetric.typed(file) if file is not None else _said_as(text or "")


def _said_as(text: str) -> MetricSource:
    """Return where the number of --metric is found: its one group in a line, or the name that it is reported by."""
    try:
        groups = re.compile(text).groups
    except re.error as error:
        raise BadRequestError(f"--metric {text}: must be a regular expression: {error}.") from error
    if groups == 1:
        return PrintedMetric(text)
    if groups == 0 and re.fullmatch(r"[\w./-]+", text):
        return ReportedMetric(text)
    raise BadRequestError(
        f"--metric {text}: must have one group, which is the number, as 'val_acc: ([0-9.]+)' has, and has {groups}; or "
        "be the name that the script calls autoaccel.report() with."
    )


def with_wishes(facts: TrainingFacts, workload: Workload, options: TuneOptions) -> TrainingFacts:
    """Return what is known of a training, with what a person has said of it.

    Args:
        facts: What was seen.
        workload: Has the command line of a script.
        options: What the person has said.
    """
    steps, steps_from = options.steps, "--steps"
    if options.hours is not None and (seconds := facts.seen.step_seconds) is not None:
        steps = max(1, round(options.hours * _HOUR / seconds))
        steps_from = f"--hours {options.hours:g} at the pace of its first steps"
    arguments = tuned_arguments(facts.seen.parsed, workload, options.args)
    said = SaidOfScript(arguments, options.in_place, metric_source(options), options.direction, steps, steps_from)
    return msgspec.structs.replace(facts, **facts.seen.changed_by(said))


def as_tuned(facts: TrainingFacts, recipe: Recipe) -> TrainingFacts:
    """Return what is known of a training, with what was said of it when a recipe was made.

    Args:
        facts: What is seen of it now.
        recipe: Of the same training.
    """
    tuned = recipe.seen
    direction = recipe.accuracy.direction if recipe.accuracy is not None else None
    # What was read of its length, and not said, is read again: the script may be given other arguments.
    steps = tuned.planned_steps if tuned.planned_from.startswith("--") else None
    said = SaidOfScript(tuned.arguments, tuned.in_place, tuned.metric, direction, steps, tuned.planned_from)
    return msgspec.structs.replace(facts, **facts.seen.changed_by(said))
