"""Each reader and parser as a function of bytes that may raise nothing but an error of ours, whatever the bytes are.

For tests that make bytes up, and for the fuzzer (tools/fuzz.py). A reader also uses what it has read, as far as a
command would before anything starts.
"""

from __future__ import annotations

import atexit
import io
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from autoaccel.commands.checking import read_pairs
from autoaccel.commands.drafting import draft_build
from autoaccel.errors import BadRequestError
from autoaccel.machine.ranks import first_host, rank_of, tasks_per_node
from autoaccel.machine.topology_text import parse_topology
from autoaccel.records.base import decode, encode
from autoaccel.records.check import CheckedPair
from autoaccel.records.proof import TrainedPair
from autoaccel.records.recipe import Recipe
from autoaccel.records.workload import BuildFunction
from autoaccel.report.tables import print_trials
from autoaccel.report.terminal import print_recipe
from autoaccel.runs.recipes import open_recipe
from autoaccel.runs.run_folder import RunFolder
from autoaccel.runs.run_values import check_run
from autoaccel.runs.script_arguments import parse_arguments
from autoaccel.runtime.script.listening import find_number
from autoaccel.space.domains import contexts_on
from autoaccel.space.search_space import load_space
from autoaccel.space.wishes import check_values
from autoaccel.units import parse_duration, parse_max_drop, parse_numbers
from autoaccel.workers.trackers import trackers_offline
from tests.hostile.samples import failed_trial, recipe, run_record, this_machine

_TEMPORARY = tempfile.TemporaryDirectory(prefix="hostile-")
atexit.register(_TEMPORARY.cleanup)
_FOLDER = Path(_TEMPORARY.name)


def _file(name: str, data: bytes) -> Path:
    path = _FOLDER / name
    path.write_bytes(data)
    return path


def _recipe(data: bytes) -> None:
    recipe = open_recipe(_file("recipe.json", data))
    print_recipe(Console(file=io.StringIO(), width=100), recipe, Path("recipe.json"))
    assert recipe._repr_html_()
    assert decode(encode(recipe), Recipe) == recipe


def _tracker(data: bytes) -> None:
    (_FOLDER / "wandb").mkdir(exist_ok=True)
    _file("wandb/settings", data)
    mode = trackers_offline({}, str(_FOLDER))["WANDB_MODE"]
    assert mode.lower() in ("disabled", "dryrun", "offline")


def _run(data: bytes) -> None:
    _file("run.json", data)
    _file("trials.jsonl", b"")
    folder = RunFolder(_FOLDER)
    record = folder.load_record()
    assert record is not None
    check_run(folder, record.request, this_machine())


def _trials(data: bytes) -> None:
    _file("trials.jsonl", data)
    print_trials(Console(file=io.StringIO(), width=100), RunFolder(_FOLDER).load_trials(), {})


def _pairs(data: bytes) -> None:
    read_pairs(_file("recipe.accuracy.jsonl", data), "")


def _space(data: bytes) -> None:
    space = load_space(str(_file("space.toml", data)), contexts_on(this_machine())[0])
    assert space.open.keys().isdisjoint(space.fixed)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _ranks(data: bytes) -> None:
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT", "MASTER_ADDR")
    rank_of(dict(zip(names, _text(data).split("\n"), strict=False)))
    tasks_per_node(_text(data))
    first_host(_text(data))


def _draft(data: bytes) -> None:
    draft_build(_file("script.py", data), "out.py")


READERS: dict[str, tuple[Callable[[bytes], object], bytes]] = {
    "recipe": (_recipe, encode(recipe(of_script=True))),
    "tracker": (_tracker, b"[default]\nmode = disabled\n"),
    "run": (_run, encode(run_record(BuildFunction("/none/model.py", "build", "0" * 64)))),
    "trials": (_trials, encode(failed_trial()) + b"\n"),
    "pairs": (_pairs, encode(CheckedPair("", 0, TrainedPair((0.9, 0.8)), 3.5)) + b"\n"),
    "space": (_space, b'title = "t"\n[knobs]\n"threads.affinity" = ["0-3,5", "none"]\n"loader.workers" = [1, 2]\n'),
    "topology": (lambda data: parse_topology(_text(data)), b"\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tNV4\t0-3\n"),
    "metric": (lambda data: find_number(_text(data), "a.b"), b'{"a": [{"b": 1}]}'),
    "numbers": (lambda data: parse_numbers(_text(data)), b"0-3,5"),
    "duration": (lambda data: parse_duration(_text(data)), b"1h30m"),
    "drop": (lambda data: parse_max_drop(_text(data)), b"0.5%"),
    "arguments": (lambda data: parse_arguments([_text(data)]), b"batch-size=32,64"),
    "wishes": (lambda data: check_values([_text(data)], this_machine()), b"threads.affinity=0-3"),
    "ranks": (_ranks, b"0\n2\n0\n2\n29500\nhost"),
    "draft": (_draft, b"model = f()\noptimizer = torch.optim.SGD(model.parameters(), lr=1)\n"),
}
"""Name of a reader -> itself, and bytes that it takes, or begins to take."""

_ALLOWED = (BadRequestError, ValueError)  # the latter of parsers whose callers expect it


def read(name: str, data: bytes) -> None:
    """Let a reader read; return unless it raises what it must not."""
    try:
        READERS[name][0](data)
    except _ALLOWED as error:
        assert not isinstance(error, UnicodeError), repr(error)
