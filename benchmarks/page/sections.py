"""The sections of the results page: a result each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autoaccel.records.base import Record
from benchmarks.catalogue import BENCHMARKS
from benchmarks.page import advice, claims, levers, runs, searches
from benchmarks.page import ranks as several
from benchmarks.page.budgets import budgets
from benchmarks.page.evidence import evidence
from benchmarks.page.first_runs import first_runs
from benchmarks.page.gpu import on_gpu
from benchmarks.page.packages import packages
from benchmarks.page.rounding import rounding
from benchmarks.page.scripts import (
    faults,
    hard_cases,
    live_scripts,
    public_scripts,
    script_hooks,
    script_overhead,
    scripts,
    users_files,
)
from benchmarks.page.seeds import seeds
from benchmarks.page.unseen import unseen

Found = dict[str, Any]
"""Name of a row -> what was found."""


def only(write: Callable[[Found], list[str]]) -> Callable[[Found], list[str]]:
    """Return what writes the table of a result that is one row."""
    return lambda found: [line for row in found.values() for line in write(row)]


class Section(Record, frozen=True):
    """One result on the page."""

    title: str
    write: Callable[[Found], list[str]]
    earlier: bool = True
    """Whether rows that were measured again are shown as a table; else they are listed, and the data is in the file."""
    command: str = ""
    """What measures it, where that is no benchmark's own result."""


SECTIONS = {
    "examples": Section("What the examples came to", runs.examples),
    "tables": Section("Tables: every setting of a space", runs.tables),
    "simulation": Section("Searches replayed on the tables", searches.simulation),
    "samplers": Section("Samplers replayed on the tables", searches.samplers),
    "simulated_machines": Section("Searches on models of recorded machines", searches.simulated_machines),
    "live": Section("Live, in the same time: projected speed-up of the planned run", searches.live),
    "live_rescored": Section(
        "The same picks, with a first compilation and with a warm one",
        searches.rescored,
        command="make benchmark NAME=live ARGS=--rescore",
    ),
    "unseen": Section("Trainings never seen before, ten minutes each", unseen, False),
    "first_runs": Section("First runs, tuned while they train", first_runs),
    "evidence": Section("Metrics that are hard to judge", evidence),
    "budgets": Section("Less than ten minutes", budgets),
    "scripts": Section("Scripts as they are", scripts),
    "live_scripts": Section("Scripts as they are, tuned while they train", live_scripts, False),
    "hard_cases": Section("Scripts as people write them, from end to end", hard_cases, False),
    "packages": Section("What is believed of trainings by well-known packages", packages, False),
    "users_files": Section("The user's files, after scripts that write to them", users_files, False),
    "public_scripts": Section("Public scripts that no test knows", public_scripts),
    "faults": Section("Faults that some settings meet", faults, False),
    "script_overhead": Section("What is added to the steps of scripts", script_overhead),
    "script_hooks": Section("Time within the hooks of a script's measurement", script_hooks),
    "false_wins": Section("The baseline against itself", claims.false_wins),
    "scatter": Section("How pairs of processes scatter, and whether intervals hold", claims.scatter),
    "means": Section("Proofs of simulated processes whose mean step time is known", claims.means),
    "replays": Section("Simulated trainings that are tuned while they run", claims.replays),
    "harms": Section("Harms planted in trainings that are tuned while they run", claims.harms, False),
    "live_neighbour": Section("Trainings tuned while they run, beside a neighbour", claims.live_neighbour, False),
    "independence": Section("Pairs whose baseline stays alive", claims.independence),
    "claims": Section("Claims, and what was measured later", claims.claims),
    "verify": Section("Claims verified: true ones and planted false ones", claims.verifications, False),
    "rounding": Section("Rounding that was planted", rounding, False),
    "search_cost": Section("What a run spends its time on", runs.search_cost),
    "neighbour": Section("Beside a neighbour that hogs all cores in bursts", only(runs.neighbour)),
    "break_even": Section("The same model, short and long", runs.break_even),
    "planted": Section("Problems that were planted", advice.planted),
    "advice": Section("Advice on the examples", advice.examples),
    "bounds": Section("What bounds are worth to a search", advice.bounds),
    "held": Section("Bounds beside what remedies won", advice.held),
    "remedies": Section("Bounds by measured rates, and gains on the same machine", advice.remedies),
    "pairs": Section("Every two knobs together", levers.pairs, False),
    "libraries": Section("OpenMP runtimes and allocators", levers.libraries),
    "layouts": Section("Channels last: what flows, or the weights", levers.layouts),
    "pruning": Section("Sparsity against time and accuracy", levers.pruning),
    "nni": Section("NNI beside today's torch", only(levers.nni)),
    "ipex": Section("Intel's extension", only(levers.ipex)),
    "versions": Section("Versions of torch, Python and the other dependencies", levers.versions),
    "ranks": Section("Two ranks on two cores", several.ranks),
    "machines": Section("Two machines, one of whose ranks is killed", only(several.machines)),
    "launchers": Section("The same recipe through every launcher", only(several.launchers)),
    "sharing": Section("Several workers of one study, one killed", only(several.sharing), False),
    "report_page": Section("Reports in a browser", only(advice.report_page), False),
    "seeds": Section("How a metric's drop scatters from seed to seed", seeds),
    "scaling": Section("Published run times, predicted", only(several.scaling)),
    "gpu": Section("On a GPU, beside pytorch-autotune", on_gpu),
}
"""Result -> its section, in the order of the page."""


def command_of(result: str) -> str:
    """Return what to type to measure a result."""
    return next(f"make benchmark NAME={one.name}" for one in BENCHMARKS if result in one.rows)
