"""A training of one's own program or notebook, tuned while it runs."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autoaccel.records.messages import TuneLive, WorkerSpec
from autoaccel.records.workload import Script
from autoaccel.runs.history import training_key
from autoaccel.runs.run_names import next_run_path
from autoaccel.runtime.hosting import is_hosted
from autoaccel.space.search_space import check_wishes
from autoaccel.text import one_line, say


class Live:
    """What a block says of the training in it."""

    summary = ""
    """What came of it, in a sentence; empty until the block has ended."""


@contextmanager
def tuned(space: str, output: Path | None, with_history: bool) -> Iterator[Live]:
    """Tune what is trained in the block; see `autoaccel.live`.

    Raises:
        BadRequestError: If there is no such search space.
    """
    found = Live()
    if is_hosted():
        found.summary = "it was not tuned here: autoaccel runs this program already"
        yield found
        return
    check_wishes(space)
    from autoaccel.live.trainings import LiveTraining  # it imports torch

    path = Path(space)
    program = _program()
    stem = Path(program.path).stem if program is not None else "notebook"
    task = TuneLive(
        space=str(path.absolute()) if path.suffix == ".toml" else space,  # the block may go to another folder
        folder=str((output or next_run_path(stem)).absolute()),
        training=program.path if program is not None else "",
        training_key=training_key(program) if program is not None and with_history else "",
    )
    live = LiveTraining(WorkerSpec(task, program), _tell)
    try:
        yield found
    finally:
        live.stop()
        found.summary = live.summary()
        if found.summary:  # of processes that train together one tells it
            _tell(found.summary)


def _program() -> Script | None:
    """Return the program that runs; None of a notebook or an interactive interpreter, which has no file."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    if file is None or not Path(file).is_file():
        return None
    path, spec = Path(file).absolute(), sys.modules["__main__"].__spec__
    module = spec.name.removesuffix(".__main__") if spec is not None else ""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Script(str(path), sys.argv[0], str(Path.cwd()), digest, tuple(sys.argv[1:]), module=module)


def _tell(line: str) -> None:
    say(one_line(f"autoaccel: {line}"), to_stderr=True)
