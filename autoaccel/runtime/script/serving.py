"""What a worker does with a script: it runs it as `__main__`, and answers from within its calls.

Imports no torch: the script imports it when it likes, and is heard from then on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol

import msgspec

from autoaccel.records.base import Record
from autoaccel.records.messages import Describe, Failure, Measure, TakeProfile, WorkerSpec
from autoaccel.records.rounding import CompareUpdates, RecordUpdates
from autoaccel.records.workload import Script, TrainingFacts
from autoaccel.runtime.script.cycle import TrainingOverError
from autoaccel.runtime.script.entry import enter, run_main, without_ours
from autoaccel.runtime.script.parsing import watch_parsers
from autoaccel.runtime.script.private_copies import copy_before_writing, in_scratch
from autoaccel.runtime.script.process import end_forked, keep_process
from autoaccel.runtime.script.starting import Start
from autoaccel.runtime.script.torch_import import when_torch_is_imported
from autoaccel.runtime.script.writes import Writes
from autoaccel.runtime.streams import end_process, flush_streams
from autoaccel.runtime.vision import watch_for_torchvision
from autoaccel.runtime.worker import Channel, work

if TYPE_CHECKING:
    from autoaccel.runtime.pacer import Line


class Attached(Protocol):
    """What hears a script."""

    def attach(self, failed: Callable[[BaseException], None]) -> None:
        """Hear of all that follows; `failed` is called with an error that the script must not see."""

    def ended(self) -> bool:
        """The script has come to its end; return whether to run it again."""


def main() -> NoReturn:
    """Be the worker of a script, which imports torch itself, when it likes."""
    work(_serve)


def _serve(spec: WorkerSpec, channel: Channel) -> Record | None:
    keep_process(channel.fileno())
    return serve_script(spec, channel)


def serve_script(spec: WorkerSpec, line: Line) -> Record | None:
    """Do the task; return its answer, or the Failure that it met; most are given before, and end the process."""
    script = spec.workload
    assert isinstance(script, Script)
    copy_before_writing(spec.scratch)
    running = _in_scratch(spec.scratch, script)
    attach = attach_of(spec, line)
    attached: list[Attached] = []
    enter(running.imports_from, script.program, script.arguments)
    watch_for_torchvision()
    start = Start(running.folder, running.stdin)
    start.go()
    process = os.getpid()
    when_torch_is_imported(lambda: attached.append(attach(partial(fail, spec, line))))
    try:
        while True:
            try:
                run_main(running.path, script.module)
                if os.getpid() != process:
                    end_forked(None)
            except TrainingOverError:
                pass
            except SystemExit as end:
                if end.code not in (None, 0) or os.getpid() != process:
                    raise
            if not attached or not attached[0].ended():
                return Failure(kind="invalid", message=_NO_TRAINING)
            start.go()
    except BaseException as error:
        if os.getpid() != process:
            end_forked(error)
        failure = _failure(spec, error)
        if running.stdin or not start.input.was_read:
            return failure
        return msgspec.structs.replace(failure, message=f"{failure.message}{_NO_INPUT}")


_NO_INPUT = " (it has read standard input, which is empty in a trial: give it a file with --stdin FILE)"


def _in_scratch(scratch: str | None, script: Script) -> Script:
    """Return the script to run: that in the scratch folder, if it has one, because many write beside themselves."""
    if scratch is None:
        return script
    return msgspec.structs.replace(
        script, folder=in_scratch(scratch, script.folder), path=in_scratch(scratch, script.path)
    )


_NO_TRAINING = (
    "it ended before an optimizer of torch.optim made a step, so there is nothing to measure. If it defines a function "
    "that returns a Training, call that function build(), or name it as FILE.py:NAME."
)


def finish(line: Line, answer: Record | None) -> NoReturn:
    """Answer, and end the process within whatever the script is doing."""
    flush_streams()
    if answer is not None:
        line.write(answer)
    end_process(0)


def attach_of(spec: WorkerSpec, line: Line) -> Callable[[Callable[[BaseException], None]], Attached]:
    """Return what begins to hear the script of a spec once torch is there; see `Attached.attach`."""
    task, script = spec.task, spec.workload
    assert isinstance(script, Script)
    if isinstance(task, Describe):
        parsed: dict[str, str] = {}
        watch_parsers(parsed)
        writes = None if spec.covered else Writes(_own_folders(spec, script))
        return partial(_observe, line, task, parsed, writes)
    assert isinstance(task, Measure | RecordUpdates | CompareUpdates | TakeProfile)  # no other is for a script
    return partial(_attend, spec, task, line)


def _observe(
    line: Line,
    task: Describe,
    parsed: dict[str, str],
    writes: Writes | None,
    failed: Callable[[BaseException], None],
) -> Attached:
    from autoaccel.records.messages import Described, StepMade
    from autoaccel.runtime.script.observe import Observer

    def first_step() -> None:
        if task.tells_first_step:
            line.write(StepMade(at=time.perf_counter()))

    observer = Observer(lambda facts: finish(line, Described(_completed(facts, parsed, writes))), first_step)
    observer.attach(failed)
    return observer


def _own_folders(spec: WorkerSpec, script: Script) -> tuple[str, ...]:
    """Return where a script may write without a word: its working folder, which a trial has anew, and our own."""
    compiled, temporary = os.environ.get(_COMPILED), os.environ.get(_TEMPORARY)
    ours = [str(Path(compiled).parent)] if compiled else []
    # Without the first, nothing has made it the trial's own: the script may write to the user's.
    ours += [temporary] if compiled and temporary else []
    return (spec.scratch or script.folder, *ours)


_COMPILED = "TORCHINDUCTOR_CACHE_DIR"  # in a trial, a folder within that of the run
_TEMPORARY = "TMPDIR"  # in a trial, a folder that is removed with it


def _completed(facts: TrainingFacts, parsed: dict[str, str], writes: Writes | None) -> TrainingFacts:
    """Return the facts with what was seen of the script before torch was there."""
    assert facts.script is not None
    script = msgspec.structs.replace(facts.script, parsed=parsed, writes=writes.outside() if writes else ())
    return msgspec.structs.replace(facts, script=script)


def _attend(
    spec: WorkerSpec,
    task: Measure | RecordUpdates | CompareUpdates | TakeProfile,
    line: Line,
    failed: Callable[[BaseException], None],
) -> Attached:
    """Begin to hear the script, under the settings of a task."""
    from autoaccel.runtime.script.measure import Measured
    from autoaccel.runtime.script.profile import ProfiledScript
    from autoaccel.runtime.script.updates import UpdatesOfScript

    attached: Attached
    answer = partial(finish, line)
    if isinstance(task, Measure):
        attached = Measured(spec, task, line, answer)
    elif isinstance(task, TakeProfile):
        attached = ProfiledScript(spec, task, line, answer)
    else:
        attached = UpdatesOfScript(spec, task, answer)
    attached.attach(failed)
    return attached


def fail(spec: WorkerSpec, line: Line, error: BaseException) -> NoReturn:
    """Answer that the script has failed, and end the process."""
    finish(line, _failure(spec, error))


def _failure(spec: WorkerSpec, error: BaseException) -> Failure:
    """Return the failure that an error is; its files are the user's own, not their copies."""
    from autoaccel.runtime.failures import failure_from

    failure = failure_from(without_ours(error))
    script = spec.workload
    if spec.scratch is None or not isinstance(script, Script):
        return failure
    message, trace = (text.replace(spec.scratch, "") for text in (failure.message, failure.traceback))
    return msgspec.structs.replace(failure, message=message, traceback=trace)
