"""What a run of the same training has found while it trained: what `autoaccel tune` tries first."""

from __future__ import annotations

from autoaccel.errors import BadRequestError
from autoaccel.machine.torch_version import read_torch_version
from autoaccel.records.progress import Note
from autoaccel.records.settings import Settings, describe_change
from autoaccel.runs.history import History, entry_name, training_key
from autoaccel.session.setup import Setup


def remembered(setup: Setup) -> Settings:
    """Return what a run of the same training has found while it trained, as far as it is searched; tell of it."""
    run = setup.run
    if setup.study or run.request.options.no_history:
        return {}
    try:
        entry = History().read(entry_name(training_key(run.request.workload), setup.machine, read_torch_version()))
    except (BadRequestError, OSError) as error:
        run.tell(Note(f"what `autoaccel run` has found is left aside: {error}"))
        return {}
    found = entry.settings if entry is not None else {}
    searched = {name: value for name, value in found.items() if value in setup.space.open.get(name, ())}
    if searched:
        words = describe_change({**setup.baseline_settings, **searched}, setup.baseline_settings)
        run.tell(Note(f"{words}: tried first, as `autoaccel run` has found it; --no-history begins without"))
    return searched
