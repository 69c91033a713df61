"""RunFolder: the one class that owns every file name of a run."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal

import msgspec

from autoaccel.errors import BadRequestError
from autoaccel.records.advice import Diagnosis
from autoaccel.records.base import MAX_REASON, Record, RecordType, decode, encode, read_json, write_json, write_text
from autoaccel.records.contender import ContenderResult
from autoaccel.records.files import drop_cut_off_line, read_lines
from autoaccel.records.machine import Machine
from autoaccel.records.profile import Demand
from autoaccel.records.proof import ProofPair
from autoaccel.records.recipe import Recipe
from autoaccel.records.request import Request, RequestOfSchema3
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Measurement, Trial
from autoaccel.records.workload import TrainingFacts, with_workload_type
from autoaccel.session.recipes import open_recipe
from autoaccel.units import excerpt

RUNS = Path("autoaccel-runs")
"""Where runs go unless told otherwise, in the working folder."""


PairsFor = Literal["proof", "contributions"]
"""What pairs of processes are measured for."""


RUN_SCHEMA: Literal["autoaccel/run/4"] = "autoaccel/run/4"


class RunRecord(Record, frozen=True):
    """What a run knows before its search begins: enough to resume it later."""

    schema: Literal["autoaccel/run/4"]
    request: Request
    machine: Machine
    facts: TrainingFacts
    baseline_settings: Settings
    baseline: Measurement
    diagnosis: Diagnosis | None  # None where no profile was taken
    space: SearchSpace
    demand: Demand | None = None  # from the profile, or from the baseline where there is none


class RunFolder:
    """The folder of one run.

    `run.json` appears when the search begins, `trials.jsonl` and `study.journal` grow with every trial, `proof.jsonl`
    with every pair of processes that proves the best, `contenders.jsonl` with every proof that ended,
    `contributions.jsonl` with every pair that tells what a setting adds; `recipe.json` is written as soon as something
    is proven, and once more at the end: then the run is complete, unless it names a proof that the budget left open.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
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
        self.rounding = path / "rounding"
        """What a process under the user's own settings keeps for those whose rounding is judged; gone after the run."""
        self._made: Path | None = None

    @classmethod
    def create(cls, path: Path) -> RunFolder:
        """Make the folder of a new run. Used in a `with` block, it is gone again if nothing was worth keeping.

        Raises:
            BadRequestError: If there is something in it already.
        """
        folder = cls(path)
        if folder._record.exists() or folder.recipe.exists():
            state = "is complete" if folder._is_complete() else "can be resumed with --resume"
            raise BadRequestError(
                f"{path}: the folder already contains a run, which {state}. Name another folder with --output."
            )
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise BadRequestError(f"{path}: must be a new or empty folder for the run. Name another with --output.")
        existing = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
        folder._made = None if existing == path else path
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadRequestError(
                f"{path}: cannot be created ({error.strerror}). Name another with --output."
            ) from error
        return folder

    @classmethod
    def resume(cls, path: Path) -> RunFolder:
        """Open the folder of a run that was interrupted, or whose budget left a proof open.

        Raises:
            BadRequestError: If there is none, or it is complete.
        """
        folder = cls(path)
        if folder._is_complete():
            raise BadRequestError(
                f"{path}: this run is complete: no proof is open. See it with: autoaccel show {path}. To search more, "
                "start without --resume."
            )
        if not folder._record.exists():
            raise BadRequestError(
                f"{path}: there is no run to resume; its search had not begun. Start without --resume."
            )
        shutil.rmtree(folder.rounding, ignore_errors=True)  # of a run that was killed
        return folder

    def _is_complete(self) -> bool:
        """Whether nothing is left to resume."""
        if not self.recipe.exists() or not self._record.exists():
            return self.recipe.exists()
        recipe = self.load_recipe()
        return recipe.open_proof is None and not recipe.search.unfinished

    @property
    def spent_seconds(self) -> float:
        """What the run had spent on this machine when its recipe was written; its trials only if it has none."""
        if self.recipe.exists():
            return self.load_recipe().search.spent_seconds
        return sum(trial.spent_seconds for trial in self.load_trials() if trial.host in ("", platform.node()))

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.path / "compiled", ignore_errors=True)
        shutil.rmtree(self.rounding, ignore_errors=True)
        if not (self._record.exists() or self.recipe.exists()):
            shutil.rmtree(self.path / "logs", ignore_errors=True)
            self.pickled.unlink(missing_ok=True)
            self._remove_if_empty()

    def _remove_if_empty(self) -> None:
        if self._made is None:
            return
        for folder in (self._made, self._made.parent):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()

    def save_record(self, record: RunRecord) -> None:
        """Write what the search starts from."""
        write_json(self._record, record)

    def load_record(self) -> RunRecord | None:
        """Return what the search started from; None if it has not begun."""
        if not self._record.exists():
            return None
        return read_json(self._record, RunRecord, "the record of a run", _upgraded)

    def add_trial(self, trial: Trial) -> None:
        """Append a finished trial."""
        _append_line(self._trials, trial)

    def add_pair(self, pair: ProofPair, purpose: PairsFor) -> None:
        """Append a measured pair of processes."""
        _append_line(self._pairs[purpose], pair)

    def add_contender(self, result: ContenderResult) -> None:
        """Append the result of a proof."""
        _append_line(self._contenders, result)

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
        write_json(self.recipe, recipe)

    def withdraw(self) -> None:
        """Remove the recipe and the report of what was kept too early."""
        self.recipe.unlink(missing_ok=True)
        self.report.unlink(missing_ok=True)


def _upgraded(record: bytes) -> bytes:
    """Return the record of a run as it is written today; in schema 3 a request had no options and its workload no type.

    Raises:
        msgspec.MsgspecError: If it is not JSON, or of schema 3 with another request than that.
    """
    fields = decode(record, object)
    if not isinstance(fields, dict) or fields.get("schema") != "autoaccel/run/3":
        return record
    request = msgspec.convert(with_workload_type(fields.get("request")), RequestOfSchema3).upgraded()
    return encode({**fields, "schema": RUN_SCHEMA, "request": request})


def _append_line(path: Path, record: Record) -> None:
    """Append a record to a file of one a line; a last line that a crash cut off goes first."""
    if path.exists():
        drop_cut_off_line(path)
    with path.open("ab") as file:
        file.write(encode(record) + b"\n")


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


def next_run_path(stem: str, runs: Path = RUNS) -> Path:
    """Return a new folder for a run of this workload: `autoaccel-runs/model-1`, `-2`, ..."""
    taken = [int(path.name.rpartition("-")[2]) for path in _runs_of(stem, runs)]
    return runs / f"{stem}-{max(taken, default=0) + 1}"


def latest_run_path(stem: str, runs: Path = RUNS) -> Path:
    """Return the newest folder of a run of this workload.

    Raises:
        BadRequestError: If there is none.
    """
    found = _runs_of(stem, runs)
    if not found:
        raise BadRequestError(f"{runs}: there is no run of {stem} to resume. Name its folder with --output.")
    return max(found, key=lambda path: int(path.name.rpartition("-")[2]))


def _runs_of(stem: str, runs: Path) -> list[Path]:
    numbered = (path for path in runs.glob("*-*") if path.name.rpartition("-")[2].isdecimal())
    return [path for path in numbered if path.name.rpartition("-")[0] == stem]
