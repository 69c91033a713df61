"""RunRecord: what a run knows before its search begins."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from autoaccel.records.advice import Diagnosis
from autoaccel.records.base import Record, decode, encode, read_json
from autoaccel.records.machine import Machine
from autoaccel.records.profile import Demand
from autoaccel.records.request import Request, RequestOfSchema3
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Measurement
from autoaccel.records.workload import TrainingFacts, with_workload_type

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
    remembered: Settings = {}  # that a run of the same training has found while it trained, as far as searched


def read_run_record(path: Path) -> RunRecord:
    """Return the record in a file.

    Raises:
        BadRequestError: If it is missing or is none.
    """
    return read_json(path, RunRecord, "the record of a run", _upgraded)


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
