"""RunFolder: the one class that owns every file name of a run."""

from __future__ import annotations

import contextlib
import platform
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal

import msgspec

from autoaccel.errors import AutoaccelError, BadRequestError
from autoaccel.records.base import (
    MAX_REASON,
    Record,
    RecordType,
    append_line,
    decode,
    encode,
    read_json,
    write_json,
    write_text,
)
from autoaccel.records.contender import ContenderResult
from autoaccel.records.files import read_lines
from autoaccel.records.proof import ProofPair
from autoaccel.records.recipe import Recipe
from autoaccel.records.request import Request
from autoaccel.records.run import RunRecord, read_run_record
from autoaccel.records.trial import Trial
from autoaccel.records.workload import without_arguments
from autoaccel.runs.folder_lock import LOCK, FolderLock
from autoaccel.runs.kept_arguments import load_arguments, load_own_arguments, save_arguments
from autoaccel.runs.recipes import open_recipe
from autoaccel.runs.run_names import RUNS, next_run_path
from autoaccel.units import excerpt

PairsFor = Literal["proof", "contributions"]
"""What pairs of processes are measured for."""


class Spent(Record, frozen=True):
    """How much of its budget a run has spent, up to the last thing that it has kept."""

    seconds: float


class RunFolder:
    """The folder of one run, in which one process at a time works: that in whose `with` block it is.

    `request.json` and `arguments.json` appear first: from then on the run can be resumed. `run.json` appears when the
    search begins, `trials.jsonl` and `study.journal` grow with every trial, `proof.jsonl`
    with every pair of processes that proves the best, `contenders.jsonl` with every proof that ended,
    `contributions.jsonl` with every pair that tells what a setting adds, and `spent.json` says what all that took;
    `recipe.json` is written as soon as something is proven, and once more at the end: then the run is complete, unless
    it names a proof that the budget left open.

    The training's own arguments, which may be secret, stand in `arguments.json` alone. Only its owner can enter the
    folder, and read that.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FolderLock(path)
        self._request = path / "request.json"
        self._arguments = path / "arguments.json"
        self._spent = path / "spent.json"
        self._record = path / "run.json"
        self._trials = path / "trials.jsonl"
        self._contenders = path / "contenders.jsonl"
        self._pairs = {"proof": path / "proof.jsonl", "contributions": path / "contributions.jsonl"}
        self.recipe = path / "recipe.json"
        self.report = path / "report.html"
        self.study = path / "study.journal"
        """The search as an Optuna study; `trials.jsonl` is what the run itself goes by."""
        self.study_name = path.absolute().name
        self.pickled = path / "build.pkl"
        self._compiled = path / "compiled"
        self.rounding = path / "rounding"
        """What a process under the user's own settings keeps for those whose rounding is judged; gone after the run."""
        self._made: Path | None = None
        self._is_resumed = False

    @classmethod
    def create(cls, path: Path) -> RunFolder:
        """Make the folder of a new run. Used in a `with` block, it is gone again if nothing was worth keeping.

        A run in it that was killed before its search began has found nothing yet: it is begun anew.

        Raises:
            BadRequestError: If there is something in it already.
        """
        folder = cls(path)
        folder._lock.refuse_if_held()
        if folder._record.exists() or folder.recipe.exists():
            state = "is complete" if folder._is_complete() else "can be resumed with --resume"
            raise BadRequestError(
                f"{path}: the folder already contains a run, which {state}. Name another folder with --output."
            )
        if path.exists() and not (path.is_dir() and folder._is_unbegun()):
            raise BadRequestError(f"{path}: must be a new or empty folder for the run. Name another with --output.")
        existing = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
        folder._made = None if existing == path else path
        _make(path.absolute().parent)
        try:
            path.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise _cannot_be_made(path, error) from error
        return folder

    @classmethod
    def resume(cls, path: Path) -> RunFolder:
        """Open the folder of a run that was interrupted, or whose budget left a proof open.

        Raises:
            BadRequestError: If there is none, or it is complete.
        """
        folder = cls(path)
        folder._lock.refuse_if_held()
        if folder._is_complete():
            raise BadRequestError(
                f"{path}: this run is complete: no proof is open. See it with: autoaccel show {path}. To search more, "
                "start without --resume."
            )
        if not (folder._request.exists() or folder._record.exists()):
            raise BadRequestError(f"{path}: there is no run to resume. Start without --resume.")
        folder._refuse_links()
        folder._is_resumed = True
        return folder

    @classmethod
    def create_next(cls, stem: str, runs: Path = RUNS) -> RunFolder:
        """Make the folder of a new run under the next number; if another process takes that first, under a later one.

        Raises:
            BadRequestError: If it cannot be made.
        """
        _make(runs)
        while True:
            folder = cls(next_run_path(stem, runs))
            try:
                folder.path.mkdir(mode=0o700)
            except FileExistsError:
                continue
            except OSError as error:
                raise _cannot_be_made(folder.path, error) from error
            folder._made = folder.path
            return folder

    def _is_unbegun(self) -> bool:
        """Whether nothing is in the folder but what a run has left that was killed before its search began."""
        before_request = (LOCK, self._arguments.name, self.pickled.name)
        found = (path.name for path in self.path.iterdir())
        return self._request.exists() or all(name in before_request or _is_aside(name) for name in found)

    def _refuse_links(self) -> None:
        """Refuse links out of the folder of a run, which may have been made elsewhere.

        Raises:
            BadRequestError: If a file is a link, through which something else would be written.
        """
        files = [*self.path.iterdir(), *self.path.glob("logs/*")]
        if links := sorted(file for file in files if file.is_symlink()):
            raise BadRequestError(
                f"{links[0]}: is a symbolic link, but a run writes in its own folder only. Put the file itself in its "
                "place."
            )

    def _is_complete(self) -> bool:
        """Whether nothing is left to resume."""
        if not self.recipe.exists() or not self._record.exists():
            return self.recipe.exists()
        recipe = self.load_recipe()
        return recipe.open_proof is None and not recipe.search.unfinished

    @property
    def spent_seconds(self) -> float:
        """What the run had spent on this machine when it last kept something; 0 if it has kept nothing.

        Runs of earlier versions say it in their recipe; without one, their trials do.
        """
        if self._spent.exists():
            return read_json(self._spent, Spent, "what a run has spent").seconds
        if self.recipe.exists():
            return self.load_recipe().search.spent_seconds
        return sum(trial.spent_seconds for trial in self.load_trials() if trial.host in ("", platform.node()))

    def __enter__(self) -> RunFolder:
        """Take the folder for this process.

        Raises:
            BadRequestError: If another process has it.
        """
        self._lock.take()
        with contextlib.suppress(PermissionError):  # another user's, shared with this one
            self.path.chmod(0o700)  # logs hold whatever the training prints
        for path in self.path.iterdir():  # of a run that was killed
            if _is_aside(path.name):
                path.unlink()
        self._clear()
        if left := [cache for cache in (self._compiled, self.rounding) if cache.exists()]:
            self._lock.release()
            raise BadRequestError(f"{left[0]}: must be removed before the run goes on, and cannot be.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the folder up. What is worth nothing goes: a run that can never have a result."""
        self._clear()
        has_refused = error is None or isinstance(error, AutoaccelError)
        is_worthless = has_refused and not self._is_resumed and not (self._record.exists() or self.recipe.exists())
        if is_worthless:
            shutil.rmtree(self.path / "logs", ignore_errors=True)
            for file in (self.pickled, self._request, self._arguments):
                file.unlink(missing_ok=True)
        self._lock.release()
        if is_worthless:
            self._remove_if_empty()

    def _clear(self) -> None:
        # What torch would load or execute of a run that was killed, or was made elsewhere.
        for folder in (self._compiled, self.rounding):
            shutil.rmtree(folder, ignore_errors=True)

    def _remove_if_empty(self) -> None:
        if self._made is None:
            return
        for folder in (self._made, self._made.parent):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()

    def save_request(self, request: Request) -> None:
        """Write what is asked of the run: with that it can be resumed."""
        save_arguments(self._arguments, request.workload.arguments)
        write_json(self._request, msgspec.structs.replace(request, workload=without_arguments(request.workload)))

    def load_request(self) -> Request | None:
        """Return what is asked of the run; None if that is not written yet.

        Raises:
            BadRequestError: If the files hold something else.
        """
        if self._request.exists():
            request = read_json(self._request, Request, "the request of a run")
            arguments = load_arguments(self._arguments)
            return msgspec.structs.replace(
                request, workload=msgspec.structs.replace(request.workload, arguments=arguments)
            )
        record = self.load_record()  # of an earlier version, which has it all
        return record.request if record else None

    def own_arguments(self) -> tuple[str, ...]:
        """Return the training's arguments, if this user has given them here; see `load_own_arguments`."""
        return load_own_arguments(self._arguments) if self._arguments.exists() else ()

    def save_spent(self, seconds: float) -> None:
        """Write what the run has spent; nothing before its search begins, as nothing of that is kept."""
        if self._record.exists():
            write_json(self._spent, Spent(seconds))

    def save_record(self, record: RunRecord) -> None:
        """Write what the search starts from."""
        request = msgspec.structs.replace(record.request, workload=without_arguments(record.request.workload))
        write_json(self._record, msgspec.structs.replace(record, request=request))

    def load_record(self) -> RunRecord | None:
        """Return what the search started from; None if it has not begun."""
        if not self._record.exists():
            return None
        return read_run_record(self._record)

    def add_trial(self, trial: Trial) -> None:
        """Append a finished trial."""
        append_line(self._trials, trial)

    def add_pair(self, pair: ProofPair, purpose: PairsFor) -> None:
        """Append a measured pair of processes."""
        append_line(self._pairs[purpose], pair)

    def add_contender(self, result: ContenderResult) -> None:
        """Append the result of a proof."""
        append_line(self._contenders, result)

    def load_contenders(self) -> list[ContenderResult]:
        """Return the results of the proofs so far, in their order."""
        return _load_lines(self._contenders, ContenderResult, "the result of a proof")

    def load_pairs(self, purpose: PairsFor) -> list[ProofPair]:
        """Return the pairs that were measured so far, in their order."""
        return _load_lines(self._pairs[purpose], ProofPair, "a pair of processes")

    def save_trials(self, trials: Sequence[Trial]) -> None:
        """Write all trials again, when more is known of them."""
        write_text(self._trials, "".join(f"{encode(trial).decode()}\n" for trial in trials))

    def load_trials(self) -> list[Trial]:
        """Return the finished trials; a last line that was cut off by a crash is left out."""
        return _load_lines(self._trials, Trial, "a trial")

    def load_recipe(self) -> Recipe:
        """Return the recipe of a complete run."""
        return open_recipe(self.recipe)

    def save(self, recipe: Recipe, report: str) -> None:
        """Write the report (HTML), then the recipe."""
        write_text(self.report, report)
        self.save_recipe(recipe)

    def save_recipe(self, recipe: Recipe) -> None:
        """Write the recipe alone, where the report that there is holds."""
        write_json(self.recipe, recipe)

    def withdraw(self) -> None:
        """Remove the recipe and the report of what was kept too early."""
        self.recipe.unlink(missing_ok=True)
        self.report.unlink(missing_ok=True)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_be_made(folder, error) from error


def _cannot_be_made(folder: Path, error: OSError) -> BadRequestError:
    return BadRequestError(f"{folder}: cannot be created ({error.strerror}). Name another with --output.")


def _is_aside(name: str) -> bool:
    """Whether a file is what `write_text` leaves if it is killed."""
    return re.fullmatch(r"\..+\.\d+", name) is not None


def _load_lines(path: Path, kind: type[RecordType], what: str) -> list[RecordType]:
    """Return the records of a file, one a line.

    Raises:
        BadRequestError: If a line is none.
    """
    if not path.exists():
        return []
    records = []
    for number, line in read_lines(path, what):
        try:
            records.append(decode(line, kind))
        except msgspec.MsgspecError as error:
            raise BadRequestError(f"{path}:{number}: this is not {what}: {excerpt(str(error), MAX_REASON)}.") from error
    return records
