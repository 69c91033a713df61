"""Knobs of the OpenMP runtime under which threads share work, and of the variables that it reads."""

from __future__ import annotations

from collections.abc import Mapping

from autoaccel.records.settings import Value
from autoaccel.space.knobs.cpus import format_cpus
from autoaccel.space.knobs.knob import ON, Clash, Knob, KnobContext, Need, always, choices, equals
from autoaccel.space.knobs.threads import BOUND_TWICE, why_one_core

VARIABLES = {
    "threads.omp_proc_bind": "OMP_PROC_BIND",
    "threads.omp_places": "OMP_PLACES",
    "threads.omp_schedule": "OMP_SCHEDULE",
    "threads.omp_wait_policy": "OMP_WAIT_POLICY",
    "threads.gomp_affinity": "GOMP_CPU_AFFINITY",
    "threads.kmp_affinity": "KMP_AFFINITY",
    "threads.kmp_blocktime": "KMP_BLOCKTIME",
}
"""Knob -> the variable that an OpenMP runtime reads when it is loaded."""

_INTEL = Need("threads.openmp", equals("intel"), "intel")
_GNU = Need("threads.openmp", equals("gnu"), "gnu")


def _openmp_values(context: KnobContext) -> tuple[Value, ...]:
    found = {library.name for library in context.machine.openmp}
    return ("gnu", "intel") if "libiomp5" in found else ("gnu",)


def _why_one_openmp(context: KnobContext) -> str:
    if context.machine.system != "Linux":
        return f"no runtime can be preloaded on {context.machine.system}"
    return (
        "" if len(_openmp_values(context)) > 1 else "Intel's runtime is not installed: pip install 'autoaccel[intel]'"
    )


def _openmp_environment(value: Value, context: KnobContext) -> Mapping[str, str]:
    paths = {library.name: library.path for library in context.machine.openmp}
    return {"LD_PRELOAD": paths["libiomp5"]} if value == "intel" and "libiomp5" in paths else {}


def _variable(name: str, values: tuple[Value, ...], help: str, helps_when: str, need: Need | None = None) -> Knob:
    """Return the knob of a variable that the OpenMP runtime reads when it is loaded."""
    return Knob(
        name=name,
        group="threads",
        effect_stage="environment",
        acts_in=("loop", "script"),
        risk="rounding",  # another share of the work for each thread adds up in another order
        help=help,
        helps_when=helps_when,
        effect="autoaccel.runtime.knobs.threads:OpenMpVariable",
        values=lambda context: values,
        usual=always("unset"),
        off="unset",
        why_unavailable=_why_one_openmp if need is _INTEL else why_one_core,
        environment=lambda value, context: {VARIABLES[name]: str(value)},
        needs=(need,) if need else (),
    )


def _all_cpus(value: Value, context: KnobContext) -> Mapping[str, str]:
    return {"GOMP_CPU_AFFINITY": format_cpus(context.machine.limits.affinity)}


KNOBS = (
    Knob(
        name="threads.openmp",
        group="threads",
        effect_stage="launch",
        acts_in=("loop", "script"),
        risk="rounding",
        help="the OpenMP runtime that shares work among threads: GNU's, which comes with torch, or Intel's",
        helps_when="many short parallel regions on a CPU, together with its own settings",
        effect="autoaccel.runtime.knobs.threads:OpenMpRuntime",
        values=_openmp_values,
        usual=always("gnu"),
        off="gnu",
        why_unavailable=_why_one_openmp,
        environment=_openmp_environment,
    ),
    _variable(
        "threads.omp_proc_bind",
        ("unset", "close", "spread"),
        "whether each OpenMP thread is bound to its place, close to the others or spread out",
        "many cores or several memory nodes, and nothing else needs the same cores",
    ),
    _variable(
        "threads.omp_places",
        ("unset", "cores", "threads"),
        "what an OpenMP thread is bound to: a core or a hyper-thread",
        "hyper-threads, together with a binding",
        Need("threads.omp_proc_bind", ON, "not unset"),
    ),
    _variable(
        "threads.omp_schedule",
        ("unset", "static", "dynamic", "guided"),
        "how loops that leave the schedule to the environment are split among threads",
        "hardly ever: torch's own loops fix their schedule",
    ),
    _variable(
        "threads.omp_wait_policy",
        ("unset", "active", "passive"),
        "whether idle threads spin or sleep between parallel regions",
        "active: the process has its cores to itself; passive: loader workers or neighbours need them",
        _GNU,
    ),
    Knob(
        name="threads.gomp_affinity",
        group="threads",
        effect_stage="environment",
        acts_in=("loop", "script"),
        risk="rounding",
        help="GNU's runtime binds thread i to the i-th usable CPU (GOMP_CPU_AFFINITY)",
        helps_when="the process has its cores to itself",
        effect="autoaccel.runtime.knobs.threads:OpenMpVariable",
        values=choices(False, True),
        usual=always(False),
        off=False,
        why_unavailable=why_one_core,
        environment=_all_cpus,
        needs=(_GNU,),
        clashes=(
            Clash(ON, "threads.omp_proc_bind", ON, BOUND_TWICE),
            Clash(ON, "threads.affinity", ON, BOUND_TWICE),
        ),
    ),
    _variable(
        "threads.kmp_affinity",
        ("unset", "granularity=fine,compact,1,0", "granularity=fine,scatter", "disabled"),
        "where Intel's runtime binds its threads",
        "the process has its cores to itself; compact,1,0 puts one thread on each core before it uses hyper-threads",
        _INTEL,
    ),
    _variable(
        "threads.kmp_blocktime",
        ("unset", "0", "1", "infinite"),
        "milliseconds for which a thread of Intel's runtime spins before it sleeps; unset means 200",
        "1: short regions one after another; 0: others need the cores",
        _INTEL,
    ),
)
"""Those of the OpenMP runtime."""
