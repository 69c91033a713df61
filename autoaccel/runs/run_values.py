"""Whether what a run folder holds could be had on a machine, before a run resumes from it."""

from __future__ import annotations

from autoaccel.errors import BadRequestError
from autoaccel.records.machine import Machine
from autoaccel.records.options import check
from autoaccel.records.request import Request
from autoaccel.runs.run_folder import RunFolder
from autoaccel.space.domains import check_settings, contexts_on


def check_run(folder: RunFolder, request: Request, machine: Machine) -> None:
    """Refuse a run whose options or settings nobody could have there: what it holds is measured and proven again.

    Args:
        folder: Of the run.
        request: What was asked of it, as the folder has it.
        machine: On which it is resumed.

    Raises:
        BadRequestError: Naming the folder, what must hold and what was found.
    """
    try:
        check(request.options)
    except BadRequestError as error:
        raise BadRequestError(f"{folder.path}: {error}") from error
    if (record := folder.load_record()) is None:
        return
    own = record.baseline_settings
    given = [own, *(trial.settings for trial in folder.load_trials())]
    given += [contender.settings for contender in folder.load_contenders()]
    given += [pair.settings for pair in (*folder.load_pairs("proof"), *folder.load_pairs("contributions"))]
    check_settings(given, own, contexts_on(machine), str(folder.path))
