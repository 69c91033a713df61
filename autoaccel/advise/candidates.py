"""Where experts would start: the settings that are tried first, best guess first."""

from __future__ import annotations

from collections.abc import Sequence

from autoaccel.records.profile import Finding
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace

_WAITS_FOR_DATA = 0.1  # share of the step from which on workers are the first thing to try


def first_candidates(space: SearchSpace, baseline: Settings, findings: Sequence[Finding]) -> list[Settings]:
    """Return settings worth trying first, each allowed by the space and none twice, the baseline not among them.

    Which and in which order is from the benchmark's own workloads on CPUs: the best of five of its six tables is one of
    these, that of the sixth one setting from one. On a GPU compilation pays far more often, and would come first; wrong
    guesses cost a few trials, since the search goes on by what it measures. Cheap ones come before those that must
    compile. Where the step waits for data, each is tried with workers, also with fewer threads: workers need cores,
    and only the joint choice shows it.
    """
    share = {finding.code: finding.share for finding in findings}
    loads: list[Settings] = [{}]
    if share.get("data-wait", 0.0) >= _WAITS_FOR_DATA:
        most_workers: Settings = {"loader.workers": max(int(value) for value in space.open.get("loader.workers", (0,)))}
        fewer = sorted(int(value) for value in space.open.get("threads.intra_op", ()))[:-1]
        loads = [most_workers, *({**most_workers, "threads.intra_op": threads} for threads in reversed(fewer))]
    computes: list[Settings] = [
        {"precision.autocast": "bfloat16", "layout.channels_last": True, "optimizer.fused": True},
        {"precision.autocast": "bfloat16", "layout.channels_last": True},
        {"precision.autocast": "bfloat16"},
        {"model.sparsity": 0.5},
        {"optimizer.fused": True},
        *({"parallel.world_size": ranks} for ranks in space.open.get("parallel.world_size", ())[-1:]),
        {},
        {
            "precision.autocast": "bfloat16",
            "layout.channels_last": True,
            "optimizer.fused": True,
            "compile.mode": "default",
        },
        {"compile.mode": "default"},
    ]
    candidates: list[Settings] = []
    for compute in computes:
        for load in loads:
            wished = {**compute, **load}
            open_wishes = {name: value for name, value in wished.items() if value in space.open.get(name, ())}
            candidate = space.settle({**baseline, **space.fixed, **open_wishes})
            if candidate != baseline and candidate not in candidates and space.allows(candidate):
                candidates.append(candidate)
    return candidates
