"""Commands and exit codes; the only place that prints errors. Handlers import what they need when they are called."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from autoaccel import __version__
from autoaccel.errors import AutoaccelError, BadRequestError

if TYPE_CHECKING:
    from rich.console import Console

    from autoaccel.records.machine import Machine
    from autoaccel.records.workload import Workload

EXIT_FASTER = 0  # tune: a recipe was proven; verify: the claim holds; else: done
EXIT_NOT_FASTER = 1  # tune: nothing faster was found; verify: the claim does not hold
EXIT_INTERRUPTED = 130

_EPILOG = """exit codes: 0 a recipe was written (verify: the claim holds), 1 nothing faster was found (verify: it does
not hold), 2 bad request, 3 the training fails under your own settings, 130 interrupted"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    parsed = _parse(sys.argv[1:] if arguments is None else arguments)
    if parsed.command is None:
        _parser().print_help()
        return BadRequestError.exit_code
    # Killed politely, clean up as after Ctrl-C: no worker may outlive its tuner.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    handler: Callable[[argparse.Namespace], int] = parsed.handler
    try:
        return handler(parsed)
    except AutoaccelError as error:
        print(f"autoaccel: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("autoaccel: interrupted.", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # the reader, such as head, is gone; Python would complain once more at exit
        return EXIT_FASTER


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line, in which all that follows `--` is the user's file's own."""
    # Taken off first: behind an option, argparse would refuse it.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    parser = _parser()
    parsed = parser.parse_args(arguments[:end])
    for_file = list(arguments[end + 1 :])
    if for_file and not hasattr(parsed, "arguments"):
        parser.error(f"unrecognized arguments: {' '.join(for_file)}")
    if for_file:
        parsed.arguments = [*parsed.arguments, *for_file]
    return parsed


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="autoaccel",
        description="Finds out by measuring which settings make your PyTorch training faster on this machine.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"autoaccel {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")

    _add_tune(commands)

    run = commands.add_parser("run", help="train to the end with a recipe")
    _add_recipe(run)
    _add_model(run)
    run.add_argument("--seed", type=int, default=0, help="of the training (default: 0)")
    run.add_argument("--save", metavar="FILE", help="write the trained weights (a state dict) to this file")
    run.add_argument("--checkpoint", metavar="FILE", help="go on from this file if it is there; write it meanwhile")
    run.add_argument("--checkpoint-every", default="10m", metavar="TIME", help="how often (default: 10m)")
    run.add_argument("--max-restarts", type=int, default=0, metavar="N", help="how often a crashed training starts "
                     "again by itself (default: 0)")  # fmt: skip
    run.add_argument("--explain", action="store_true", help="show first which cores, threads and GPU each rank gets")
    run.set_defaults(handler=_run)

    _add_launch(commands)

    verify = commands.add_parser("verify", help="measure a recipe's claim again")
    _add_recipe(verify)
    _add_model(verify)
    verify.add_argument("--rounds", type=int, default=5, help="fresh pairs of processes, at least 3 (default: 5)")
    verify.add_argument("--json", action="store_true", help="print the result as JSON")
    verify.set_defaults(handler=_verify)

    show = commands.add_parser("show", help="show a recipe, or the trials of a run")
    show.add_argument("path", metavar="RECIPE|RUN", help="recipe.json, or the folder of a run")
    show.set_defaults(handler=_show)

    hardware = commands.add_parser("hardware", help="show what this machine has")
    hardware.add_argument("--topology", metavar="FILE", help="what `nvidia-smi topo -m` printed on some machine: show "
                          "which of its GPUs to train on together, and why")  # fmt: skip
    hardware.add_argument("--json", action="store_true", help="print JSON")
    hardware.set_defaults(handler=_hardware)

    advise = commands.add_parser("advise", help="say what costs the time of a training step, and what would help")
    _add_model(advise)
    advise.add_argument("--json", action="store_true", help="print JSON")
    advise.add_argument("--trace", metavar="FILE", help="write a trace of some steps, for ui.perfetto.dev")
    advise.add_argument("--tensorboard", metavar="DIR", help="write step times, phases and operators for TensorBoard")
    advise.set_defaults(handler=_advise)

    knobs = commands.add_parser("knobs", help="list what can be changed on this machine, and what cannot and why")
    knobs.add_argument("--json", action="store_true", help="print JSON")
    knobs.set_defaults(handler=_knobs)

    _add_scale(commands)
    return parser


def _add_tune(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    tune = commands.add_parser("tune", help="search for faster settings, prove them, write recipe.json")
    _add_model(tune)
    tune.add_argument(
        "--budget", default="10m", help="the most time this may take, such as 90s, 10m, 1h (default: 10m)"
    )
    tune.add_argument("--trials", type=int, metavar="N", help="the most trials (default: as many as the budget allows)")
    tune.add_argument("--max-drop", default="1%", metavar="DROP", help="the most that the metric may get worse: "
                      "0.5%% of the baseline's, or an amount such as 0.005 (default: 1%%)")  # fmt: skip
    tune.add_argument("--metric-repeats", type=int, default=3, metavar="K", help="paired training runs that judge the "
                      "metric of settings which may change it (default: 3)")  # fmt: skip
    tune.add_argument(
        "--space",
        default="cpu",
        help="search space: cpu, gpu, quick, exact-only, everything, or a .toml file (default: cpu)",
    )
    tune.add_argument("--set", action="append", default=[], dest="fixed", metavar="KNOB=VALUE",
                      help="every trial has this value; may be given several times")  # fmt: skip
    tune.add_argument("--exclude", action="append", default=[], metavar="KNOB", help="keep your own value of this knob")
    tune.add_argument("--output", metavar="DIR", help="folder of the run (default: autoaccel-runs/MODEL-N)")
    tune.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    tune.add_argument("--seed", type=int, default=0, help="of the search (default: 0)")
    tune.add_argument("--runs", type=int, default=20, metavar="N", help="how often you will train like this; the "
                      "search ends when it can no longer repay itself on so many runs (default: 20)")  # fmt: skip
    tune.add_argument("--json", action="store_true", help="print the recipe as JSON; progress goes to stderr")
    _add_sharing(tune)
    tune.set_defaults(handler=_tune)


def _add_scale(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    scale = commands.add_parser("scale", help="predict a data-parallel training's run time with other numbers of ranks")
    scale.add_argument("times", nargs="?", metavar="TIMES.json", help='measured seconds, such as {"1": 707, "2": 393}')
    scale.add_argument("--measured", metavar="N=SECONDS,...", help="the same without a file: 1=707,2=393,4=208")
    scale.add_argument("--predict", metavar="N,...", required=True, help="numbers of ranks, such as 8,16,64")
    scale.add_argument("--batch", choices=("keep", "split"), default="keep", help="with more ranks each keeps its "
                       "batch size, or the batch is split among them (default: keep)")  # fmt: skip
    scale.add_argument("--machines-of", type=int, metavar="N", help="ranks per machine (default: one machine for all)")
    scale.add_argument("--within", metavar="LINK", help="link within a machine: nvlink3, nvlink4, pcie3, pcie4, pcie5")
    scale.add_argument("--between", metavar="LINK", help="network: '10 GbE', '25 GbE', '100 GbE', HDR, NDR")
    scale.add_argument("--gradient-bytes", type=int, metavar="BYTES", help="of one step: 4 x parameters, as a rule")
    scale.add_argument("--steps", type=int, metavar="N", help="optimizer steps of the whole run with one rank")
    scale.add_argument("--json", action="store_true", help="print JSON")
    scale.set_defaults(handler=_scale)


def _add_launch(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    launch = commands.add_parser("launch", help="train with a recipe on one or many machines, with your launcher")
    _add_recipe(launch)
    _add_model(launch)
    launch.add_argument("--with", dest="launcher", choices=("torchrun", "mpirun", "slurm", "local"),
                        help="what starts the ranks (default: slurm for several machines if sbatch is here, else "
                        "torchrun for several ranks, else local)")  # fmt: skip
    launch.add_argument("--nodes", type=int, metavar="N", help="machines (default: as many as --hosts names, or one)")
    launch.add_argument("--hosts", metavar="A,B", help="the machines' names, rank 0's first")
    launch.add_argument("--ranks", type=int, metavar="N", help="ranks on each machine (default: the recipe's)")
    launch.add_argument("--max-restarts", type=int, default=0, metavar="N", help="how often a training that failed "
                        "starts again; with torchrun and slurm (default: 0)")  # fmt: skip
    launch.add_argument("--in", dest="image", default="", metavar="IMAGE", help="run every rank in this container: "
                        "IMAGE.sif or a folder of Apptainer's, else an image of Docker's")  # fmt: skip
    launch.add_argument("--slurm-option", action="append", default=[], metavar="KEY=VALUE",
                        help="one of sbatch's, such as partition=gpu; may be given several times")  # fmt: skip
    launch.add_argument("--wait", action="store_true", help="wait for Slurm's job, and show what it printed")
    launch.add_argument("--seed", type=int, help="of the training (default: 0)")
    launch.add_argument("--save", metavar="FILE", help="write the trained weights (a state dict) to this file")
    launch.add_argument("--checkpoint", metavar="FILE", help="go on from this file if it is there; write it meanwhile")
    launch.add_argument("--checkpoint-every", metavar="TIME", help="how often (default: 10m)")
    launch.add_argument("--dry-run", action="store_true", help="print the commands, or Slurm's script; start nothing")
    launch.set_defaults(handler=_launch)


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


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL.py[:ENTRY]", help="file that defines build(), or another function")
    parser.add_argument("arguments", nargs="*", metavar="-- ARGUMENT", help="what the file sees in sys.argv[1:]")


def _add_recipe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", help="recipe.json of a run")
    parser.add_argument("--accept-other-machine", action="store_true", help="use it although it was made elsewhere")


def _workload(parsed: argparse.Namespace) -> Workload:
    from autoaccel.session.workloads import find_workload

    return find_workload(parsed.model, parsed.arguments)


def _console(to_stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=to_stderr, highlight=False)


def _print_json(record: object) -> None:
    import msgspec

    print(msgspec.json.format(msgspec.json.encode(record), indent=2).decode())


def _tune(parsed: argparse.Namespace) -> int:
    from autoaccel.api import make_request, open_folder, run_request
    from autoaccel.report.terminal import print_recipe, watch
    from autoaccel.session.sharing import find_study

    workload = _workload(parsed)
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
    )
    _check_sharing(parsed)
    if parsed.launcher == "slurm":
        return _submit(parsed, request.budget_seconds)
    address = find_study(parsed.storage, parsed.study) if parsed.storage else None
    folder = open_folder(Path(workload.path).stem, parsed.output, parsed.resume)
    console = _console(to_stderr=parsed.json)
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
        _print_json(recipe)
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

    names = ("budget", "trials", "max_drop", "metric_repeats", "space", "seed", "runs", "storage", "study")
    given = {f"--{name.replace('_', '-')}": getattr(parsed, name) for name in names}
    options = [text for option, value in given.items() if value is not None for text in (option, str(value))]
    options += [text for wish in parsed.fixed for text in ("--set", wish)]
    options += [text for name in parsed.exclude for text in ("--exclude", name)]
    training = [parsed.model, *(["--", *parsed.arguments] if parsed.arguments else [])]
    output = parsed.output or f"autoaccel-runs/{Path(parsed.model.partition(':')[0]).stem}"
    script = array_script(options, training, output, parsed.workers, budget_seconds, Path.cwd())
    print(script if parsed.dry_run else submit(script))
    return EXIT_FASTER


def _run(parsed: argparse.Namespace) -> int:
    from autoaccel.records.recipe import read_recipe
    from autoaccel.report.tables import print_shares
    from autoaccel.report.terminal import print_training
    from autoaccel.session.training import TrainingRun, explain_shares, train_with_recipe
    from autoaccel.units import parse_duration

    path, workload = Path(parsed.recipe), _workload(parsed)
    recipe = read_recipe(path)
    _warn_if_changed(recipe.workload.sha256, workload)
    save, checkpoint = (Path(file) if file else None for file in (parsed.save, parsed.checkpoint))
    for option, file in (("--save", save), ("--checkpoint", checkpoint)):
        if file is not None and not file.absolute().parent.is_dir():
            raise BadRequestError(f"{option} {file}: there is no such folder.")
    if parsed.max_restarts < 0:
        raise BadRequestError(f"--max-restarts must be at least 0, got {parsed.max_restarts}.")
    seconds = parse_duration(parsed.checkpoint_every)
    run = TrainingRun(parsed.seed, save, checkpoint, seconds, parsed.max_restarts, parsed.accept_other_machine)
    if parsed.explain:
        print_shares(_console(), explain_shares(recipe))
    trained = train_with_recipe(recipe, path, workload, run, lambda line: print(f"autoaccel: {line}", file=sys.stderr))
    if trained.rank is None or trained.rank.rank == 0:
        print_training(trained.result, recipe)
    return EXIT_FASTER


def _launch(parsed: argparse.Namespace) -> int:
    from autoaccel.records.recipe import read_recipe
    from autoaccel.session.launching import (
        LaunchOptions,
        RunOptions,
        make_launch,
        show_launch,
        start_launch,
        why_outside,
    )

    path, workload = Path(parsed.recipe), _workload(parsed)
    recipe = read_recipe(path)
    _warn_if_changed(recipe.workload.sha256, workload)
    save, checkpoint = (Path(file) if file else None for file in (parsed.save, parsed.checkpoint))
    run = RunOptions(parsed.seed, save, checkpoint, parsed.checkpoint_every, parsed.accept_other_machine)
    hosts = tuple(filter(None, (parsed.hosts or "").split(",")))
    options = LaunchOptions(parsed.launcher, parsed.nodes, parsed.ranks, hosts, parsed.max_restarts, parsed.image,
                            tuple(parsed.slurm_option))  # fmt: skip
    request = make_launch(recipe, path, workload, run, options)
    reason = why_outside(request)
    if parsed.dry_run or reason:
        print(show_launch(request), end="")
        if not parsed.dry_run:
            raise BadRequestError(f"nothing was started: {reason}")
        return EXIT_FASTER
    return start_launch(request, parsed.wait, lambda line: print(line, flush=True))


def _warn_if_changed(sha256: str, workload: Workload) -> None:
    if sha256 != workload.sha256:
        name = Path(workload.path).name
        print(f"autoaccel: {name} is not the file that the recipe was made for; what it claims may not hold.",
              file=sys.stderr)  # fmt: skip


def _verify(parsed: argparse.Namespace) -> int:
    from autoaccel.records.recipe import read_recipe
    from autoaccel.report.terminal import print_verification, watch
    from autoaccel.session.replaying import verify_recipe

    path, workload = Path(parsed.recipe), _workload(parsed)
    recipe = read_recipe(path)
    if parsed.rounds < 3:
        raise BadRequestError(f"--rounds must be at least 3: fewer prove nothing, got {parsed.rounds}.")
    _warn_if_changed(recipe.workload.sha256, workload)
    if recipe.is_baseline:
        print("The recipe is your own settings: it claims nothing, so there is nothing to verify.")
        return EXIT_FASTER
    console = _console()
    with watch(_console(to_stderr=True)) as listener:
        result = verify_recipe(recipe, path, workload, parsed.rounds, parsed.accept_other_machine, listener)
    if parsed.json:
        _print_json(result._asdict())
    else:
        print_verification(console, result.claimed, result.measured, result.holds)
    return EXIT_FASTER if result.holds else EXIT_NOT_FASTER


def _show(parsed: argparse.Namespace) -> int:
    from autoaccel.records.recipe import read_recipe
    from autoaccel.report.tables import print_trials
    from autoaccel.report.terminal import print_recipe
    from autoaccel.session.run_folder import RunFolder

    path, console = Path(parsed.path), _console()
    if not path.is_dir():
        print_recipe(console, read_recipe(path), path)
        return EXIT_FASTER
    folder = RunFolder(path)
    state = folder.load_state()
    if folder.recipe.exists():
        print_recipe(console, folder.load_recipe(), folder.recipe)
    elif state is None:
        raise BadRequestError(f"{path}: there is no run in this folder. Name recipe.json, or the folder of a run.")
    if state is not None:
        print_trials(console, folder.load_trials(), state.baseline_settings)
    return EXIT_FASTER


def _probe() -> Machine:
    import tempfile

    from autoaccel.launch.runner import Runner
    from autoaccel.session.workers import probe_machine

    with tempfile.TemporaryDirectory(prefix="autoaccel-") as folder, Runner(Path(folder)) as runner:
        return probe_machine(runner)


def _hardware(parsed: argparse.Namespace) -> int:
    from autoaccel.machine.quiet import quiet_hints, read_load
    from autoaccel.report.tables import print_machine

    if parsed.topology is not None:
        return _topology(Path(parsed.topology), parsed.json)
    load = read_load()  # before anything of ours keeps the computer busy
    machine = _probe()
    if parsed.json:
        _print_json(machine)
    else:
        print_machine(_console(), machine)
        for hint in quiet_hints(machine, load):
            print(f"Note: {hint}.")
    return EXIT_FASTER


def _topology(path: Path, as_json: bool) -> int:
    from autoaccel.machine.interconnect import gpu_sets, parse_topology
    from autoaccel.report.tables import print_gpu_sets, print_interconnect

    try:
        interconnect = parse_topology(path.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise BadRequestError(
            f"{path}: cannot be read ({error.strerror}). Write it with: nvidia-smi topo -m > {path.name}"
        ) from error
    except BadRequestError as error:
        raise BadRequestError(f"{path}: {error}") from error
    sets = gpu_sets(interconnect, {cpu for cpus in interconnect.cpus for cpu in cpus})
    if as_json:
        _print_json({"interconnect": interconnect, "sets": sets})
    else:
        console = _console()
        print_interconnect(console, interconnect)
        console.print()
        print_gpu_sets(console, sets)
    return EXIT_FASTER


def _advise(parsed: argparse.Namespace) -> int:
    from autoaccel.report.advice import print_advice
    from autoaccel.session.advising import advise_workload

    trace = Path(parsed.trace) if parsed.trace else None
    if trace is not None and not trace.absolute().parent.is_dir():
        raise BadRequestError(f"--trace {trace}: there is no such folder.")
    board = Path(parsed.tensorboard) if parsed.tensorboard else None
    if board is not None and find_spec("tensorboard") is None:
        raise BadRequestError("--tensorboard needs tensorboard: pip install 'autoaccel[tensorboard]'.")
    advice = advise_workload(_workload(parsed), trace, board)
    if parsed.json:
        _print_json(advice)
    else:
        print_advice(_console(), advice)
    return EXIT_FASTER


def _knobs(parsed: argparse.Namespace) -> int:
    from autoaccel.report.tables import print_knobs
    from autoaccel.space.knobs import Place, knob_rows

    rows = knob_rows(Place(_probe()))
    if parsed.json:
        _print_json(rows)
    else:
        print_knobs(_console(), rows)
    return EXIT_FASTER


def _scale(parsed: argparse.Namespace) -> int:
    from autoaccel.advise.all_reduce import find_link
    from autoaccel.advise.run_times import scale_runs
    from autoaccel.records.base import read_json
    from autoaccel.records.scaling import Exchange
    from autoaccel.report.scaling import print_scaling

    if (parsed.times is None) == (parsed.measured is None):
        raise BadRequestError("measured times must be given once: TIMES.json, or --measured 1=707,2=393,4=208.")
    if parsed.times is not None:
        measured = read_json(Path(parsed.times), dict[int, float], "measured times")
    else:
        measured = _parse_times(parsed.measured)
    exchange = None
    if any(value is not None for value in (parsed.within, parsed.between, parsed.gradient_bytes, parsed.steps)):
        if (parsed.gradient_bytes or 0) < 1 or (parsed.steps or 0) < 1:
            raise BadRequestError(
                "what links cost follows from --gradient-bytes and --steps (of the whole run with one rank): both must "
                f"be at least 1, got {parsed.gradient_bytes} and {parsed.steps}."
            )
        within = find_link(parsed.within, "--within") if parsed.within else None
        between = find_link(parsed.between, "--between") if parsed.between else None
        exchange = Exchange(parsed.gradient_bytes, parsed.steps, within, between)
    scaling = scale_runs(
        measured,
        _parse_ranks(parsed.predict),
        batch=parsed.batch,
        ranks_per_machine=parsed.machines_of,
        exchange=exchange,
    )
    if parsed.json:
        _print_json(scaling)
    else:
        print_scaling(_console(), scaling)
    return EXIT_FASTER


def _parse_times(text: str) -> dict[int, float]:
    times = {}
    for part in text.split(","):
        ranks, _, seconds = part.partition("=")
        try:
            number, measured = int(ranks), float(seconds)
        except ValueError:
            raise BadRequestError(f"--measured must be ranks=seconds such as 1=707,2=393, got {part!r}.") from None
        if number in times:
            raise BadRequestError(f"--measured must name each number of ranks once, got {number} twice.")
        times[number] = measured
    return times


def _parse_ranks(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise BadRequestError(f"--predict must be numbers of ranks such as 8,16,64, got {text!r}.") from None
