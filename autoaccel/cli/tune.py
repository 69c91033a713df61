"""The command `tune`: alone, sharing a study, or submitted to Slurm."""

from __future__ import annotations

import argparse
from pathlib import Path

from autoaccel.cli.common import (
    EXIT_FASTER,
    EXIT_NOT_FASTER,
    Commands,
    add_model,
    make_console,
    print_json,
    workload_of,
)
from autoaccel.errors import BadRequestError


def add_tune(commands: Commands) -> None:
    """Declare the command."""
    tune = commands.add_parser("tune", help="search for faster settings, prove them, write recipe.json")
    add_model(tune)
    tune.add_argument(
        "--budget", default="10m", help="the most time this may take, such as 90s, 10m, 1h; with --resume +5m is that "
        "much more than was spent (default: 10m)"
    )  # fmt: skip
    tune.add_argument("--trials", type=int, metavar="N", help="the most trials (default: as many as the budget allows)")
    tune.add_argument("--max-drop", metavar="DROP", help="the most that the metric may get worse: 0.5%% of "
                      "the baseline's, or an amount such as 0.005; if given, the model may be altered (default: 1%%, "
                      "and it is not)")  # fmt: skip
    tune.add_argument("--metric-repeats", type=int, default=3, metavar="K", help="paired training runs that judge the "
                      "metric of settings which may change it (default: 3)")  # fmt: skip
    tune.add_argument("--evidence", choices=("any", "whole"), default="any", help="what must show that the metric "
                      "is kept: what fits, the strongest first, or whole planned runs (default: any)")  # fmt: skip
    tune.add_argument(
        "--space",
        default="default",
        help="search space: default, quick, exact-only, everything, or a .toml file (default: default)",
    )
    tune.add_argument("--set", action="append", default=[], dest="fixed", metavar="KNOB=VALUE",
                      help="every trial has this value; may be given several times")  # fmt: skip
    tune.add_argument("--exclude", action="append", default=[], metavar="KNOB", help="keep your own value of this knob")
    tune.add_argument("--output", metavar="DIR", help="folder of the run (default: autoaccel-runs/MODEL-N)")
    tune.add_argument("--resume", action="store_true", help="go on with a run that was interrupted, or whose budget "
                      "left a proof open")  # fmt: skip
    tune.add_argument("--seed", type=int, default=0, help="of the search (default: 0)")
    tune.add_argument("--runs", type=int, default=20, metavar="N", help="how often you will train like this; the "
                      "search ends when it can no longer repay itself on so many runs (default: 20)")  # fmt: skip
    tune.add_argument("--json", action="store_true", help="print the recipe as JSON; progress goes to stderr")
    _add_sharing(tune)
    tune.set_defaults(handler=_tune)


def _add_sharing(tune: argparse.ArgumentParser) -> None:
    sharing = tune.add_argument_group("several machines of one kind, each running the same command")
    sharing.add_argument("--storage", metavar="PATH|URL", help="where they share their trials: a file *.journal in a "
                         "folder that all see, postgresql://..., mysql://... or sqlite:///...")  # fmt: skip
    sharing.add_argument("--study", metavar="NAME", help="in that storage (default: one for each training, search "
                         "space and kind of machine)")  # fmt: skip
    sharing.add_argument("--with", choices=("local", "slurm"), default="local", dest="launcher",
                         help="slurm: submit the workers as jobs, each alone on a machine")  # fmt: skip
    sharing.add_argument("--workers", type=int, metavar="N", help="how many, --with slurm")
    sharing.add_argument("--dry-run", action="store_true", help="print the script instead of submitting it")


def _tune(parsed: argparse.Namespace) -> int:
    from autoaccel.api import check_values_here, continued, make_request, open_folder, run_request
    from autoaccel.report.terminal import print_recipe, watch
    from autoaccel.session.sharing import find_study

    workload = workload_of(parsed)
    request = make_request(
        workload,
        parsed.budget,
        parsed.max_drop,
        parsed.trials,
        parsed.metric_repeats,
        parsed.space,
        tuple(parsed.fixed),
        tuple(parsed.exclude),
        parsed.seed,
        parsed.runs,
        parsed.evidence,
        parsed.resume,
    )
    _check_sharing(parsed)
    if parsed.launcher == "slurm":
        return _submit(parsed, request.budget_seconds)
    check_values_here(parsed.fixed)
    address = find_study(parsed.storage, parsed.study) if parsed.storage else None
    folder = open_folder(Path(workload.path).stem, parsed.output, parsed.resume)
    request = continued(request, parsed.budget, folder)
    console = make_console(to_stderr=parsed.json)
    try:
        with folder, watch(console) as listener:
            recipe = run_request(request, folder, listener, address)
    except KeyboardInterrupt:
        if address:
            console.print("Finished trials are kept in the study. Start the same command again to go on.")
        elif trials := len(folder.load_trials()):
            console.print(
                f"{trials} finished trials are kept in {folder.path}. Go on with: "
                f"autoaccel tune {parsed.model} --resume --output {folder.path}"
            )
        raise
    if parsed.json:
        print_json(recipe)
    elif recipe is not None:
        print_recipe(console, recipe, folder.recipe)
    return EXIT_NOT_FASTER if recipe is not None and recipe.is_baseline else EXIT_FASTER


def _check_sharing(parsed: argparse.Namespace) -> None:
    if not parsed.storage and (parsed.study or parsed.workers or parsed.launcher != "local"):
        raise BadRequestError("--study, --workers and --with slurm need --storage: where do the workers share a study?")
    if parsed.launcher == "local" and (parsed.workers or parsed.dry_run):
        raise BadRequestError(
            "--workers and --dry-run go --with slurm. Without it, run this command by hand on every machine: one "
            "worker each."
        )
    if parsed.launcher == "slurm" and (parsed.workers is None or parsed.workers < 1):
        raise BadRequestError(f"--with slurm needs --workers, at least 1, got {parsed.workers}.")
    if parsed.launcher == "slurm" and (parsed.resume or parsed.json):
        raise BadRequestError("--resume and --json do not go --with slurm: its workers are new jobs.")


def _submit(parsed: argparse.Namespace, budget_seconds: float) -> int:
    from autoaccel.launch.submitting import array_script, submit

    names = ("budget", "trials", "max_drop", "metric_repeats", "evidence", "space", "seed", "runs", "storage", "study")
    given = {f"--{name.replace('_', '-')}": getattr(parsed, name) for name in names}
    options = [text for option, value in given.items() if value is not None for text in (option, str(value))]
    options += [text for wish in parsed.fixed for text in ("--set", wish)]
    options += [text for name in parsed.exclude for text in ("--exclude", name)]
    training = [parsed.model, *(["--", *parsed.arguments] if parsed.arguments else [])]
    output = parsed.output or f"autoaccel-runs/{Path(parsed.model.partition(':')[0]).stem}"
    script = array_script(options, training, output, parsed.workers, budget_seconds, Path.cwd())
    print(script if parsed.dry_run else submit(script))
    return EXIT_FASTER
