"""What holds for every knob: its default changes nothing, it says why it is unavailable, and what it does shows."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch

from autoaccel.records.messages import Failure, GiveTurn
from autoaccel.records.settings import Settings, format_value
from autoaccel.records.workload import Workload
from autoaccel.runs.workloads import find_workload
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.knobs import effects_of
from autoaccel.runtime.loading import build_training, load_build
from autoaccel.runtime.loop import Loop
from autoaccel.space.knobs import (
    KNOBS,
    Knob,
    KnobContext,
    default_settings,
    environment_of,
    is_on,
    knob_rows,
    modules_of,
    slow_starting_knobs,
)
from autoaccel.workers.describing import probe_and_describe
from autoaccel.workers.starter import WorkerStarter
from benchmarks.checks.knobs import wish

ROOT = Path(__file__).parents[2]
WORKLOADS = ROOT / "benchmarks" / "workloads"
WORKLOAD = WORKLOADS / "every_knob.py"
OTHERS = {"model.pruning_library": WORKLOADS / "every_knob_convolutions.py"}
"""Knobs that can do nothing there: NNI cannot remove channels around attention."""
SECONDS = 240.0


class Bench(NamedTuple):
    """A starter that knows where it is."""

    starter: WorkerStarter
    context: KnobContext


@pytest.fixture(scope="session")
def workload() -> Workload:
    return find_workload(str(WORKLOAD))


@contextlib.contextmanager
def bench_of(workload: Workload, folder: Path) -> Iterator[Bench]:
    with WorkerStarter(folder, workload) as starter:
        context = KnobContext(*probe_and_describe(starter, workload, SECONDS))
        starter = starter.at(context)
        yield Bench(starter, context)


@pytest.fixture(scope="session")
def bench(workload: Workload, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench_of(workload, tmp_path_factory.mktemp("knobs")) as bench:
        yield bench


def losses(workload: Workload, settings: Settings) -> list[float]:
    """Return the losses of ten steps, over the end of an epoch of its own loader."""
    loop = Loop(build_training(load_build(workload), workload, seed=0), Applied(settings), seed=0)
    found = []
    for _ in range(10):
        loop.step()
        found.append(loop.last_loss)
    return found


@pytest.fixture(scope="session")
def plain_losses(workload: Workload) -> list[float]:
    return losses(workload, {})


@pytest.mark.parametrize("name", KNOBS)
def test_the_default_changes_nothing(name: str, bench: Bench, workload: Workload, plain_losses: list[float]) -> None:
    default = KNOBS[name].default(bench.context)
    assert losses(workload, {name: default}) == plain_losses


def test_all_defaults_together_change_nothing(bench: Bench, workload: Workload, plain_losses: list[float]) -> None:
    assert losses(workload, default_settings(bench.context)) == plain_losses


@pytest.mark.parametrize("name", KNOBS)
def test_a_knob_has_other_values_or_says_why_not(name: str, bench: Bench) -> None:
    row = next(row for row in knob_rows(bench.context) if row.name == name)
    assert row.default in row.values
    if row.available:
        assert len(row.values) > 1 and not row.reason
    else:
        assert len(row.reason) > 10


SLOW = ("compile.fullgraph", "compile.dynamic", "compile.region", "compile.optimizer")
"""Each costs a compilation; they are measured in pairs with all others by `make benchmark NAME=knobs`."""

SHOWN_BY_OTHERS = (
    "compile.mode",
    "threads.gomp_affinity",
    "threads.omp_places",
    "threads.omp_schedule",
    "threads.omp_wait_policy",
)
"""They take effect as others of their kind do, by a compilation or a variable."""

TRACELESS = ("loader.prefetch", "loader.persistent", "loader.context", "loader.non_blocking", "optimizer.batch_factor")
"""They leave nothing in the process that could be looked at."""


@pytest.mark.end_to_end
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long) if name in SHOWN_BY_OTHERS else name
        for name in KNOBS
        if name not in SLOW
    ],
)
def test_what_is_applied_shows(name: str, bench: Bench, tmp_path: Path) -> None:
    """In a real worker: the first value that is not the default."""
    if reason := KNOBS[name].why_unavailable(bench.context):
        pytest.skip(reason)
    if name not in OTHERS:
        check_that_it_shows(KNOBS[name], bench)
        return
    with bench_of(find_workload(str(OTHERS[name])), tmp_path) as other:
        check_that_it_shows(KNOBS[name], other)


def check_that_it_shows(knob: Knob, bench: Bench) -> None:
    wished = wish(knob, bench.context)
    if wished is None:
        pytest.skip(knob.why_untried(bench.context) or "what it needs is not to be had here")
    settings = default_settings(bench.context) | wished
    measuring = bench.starter.start_measuring(settings, f"{knob.name}-{format_value(wished[knob.name])}", SECONDS)
    assert not isinstance(measuring, Failure), measuring
    try:
        assert not isinstance(measuring.take_turn(GiveTurn(0.05), SECONDS), Failure)
        shown = measuring.measurement.learned
    finally:
        measuring.close()
    if knob.effect.endswith(":Effect"):
        assert any(need.knob in shown for need in knob.needs)  # the knob that it tells how to do its work
    elif knob.name not in TRACELESS:
        assert shown[knob.name]


def test_an_explicit_list_of_cpus_is_kept_to(bench: Bench) -> None:
    cpu = bench.context.machine.limits.affinity[0]
    settings = default_settings(bench.context) | {"threads.affinity": str(cpu)}
    measuring = bench.starter.start_measuring(settings, "one-cpu", SECONDS)
    assert not isinstance(measuring, Failure), measuring
    measuring.take_turn(GiveTurn(0.05), SECONDS)
    assert measuring.measurement.learned["threads.affinity"] == f"keeps to CPUs {cpu}"
    measuring.close()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"memory.allocator": "jemalloc"}, "jemalloc is not loaded"),
        ({"threads.openmp": "intel"}, "not loaded"),
        ({"threads.omp_proc_bind": "close"}, "OMP_PROC_BIND is not set"),
        ({"threads.affinity": "compact"}, "start it with `autoaccel run`"),
        ({"memory.checkpointing": "blocks"}, "no repeated blocks"),
        ({"model.attention": "flash"}, "no scaled dot-product attention"),
        ({"model.norm_biases": "drop"}, "no such bias"),
        ({"layout.channels_last": True}, "no convolution"),
        ({"optimizer.lr_rule": "linear"}, "the batch size is the training's own"),
    ],
)
def test_what_did_nothing_is_told(settings: Settings, said: str) -> None:
    """In a process that nobody prepared, on a model that has nothing of the kind."""
    from torch import nn

    applied = Applied(settings)
    model = applied.model(nn.Linear(2, 1))
    optimizer = applied.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    with applied.forward():
        loss = model(torch.ones(1, 2)).sum()
    applied.backward(loss)
    applied.step(optimizer)
    name = next(iter(settings))
    assert said in applied.check()[1][name]


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "memory that is freed is kept"),  # the process is told as it runs
        ({"MALLOC_TRIM_THRESHOLD_": "4096"}, "pages of memory that was freed came back from the system"),
    ],
)
def test_freed_memory_that_comes_back_from_the_system_is_told(variables: dict[str, str], said: str) -> None:
    """In a process of its own: one that has run for long may have a free block in its heap that is large enough."""
    program = "from autoaccel.runtime.applied import Applied; print(Applied({'memory.keep_freed': True}).check())"
    own = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                          env={**own, **variables})  # fmt: skip
    assert said in done.stdout


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile's own
@pytest.mark.filterwarnings("ignore:Skipping serialization:UserWarning")  # torch 2.6, where nothing is cached yet
@pytest.mark.long
def test_cuda_graphs_that_were_skipped_are_told() -> None:
    """As they are on a CPU, where nobody offers that mode."""
    from torch import nn

    applied = Applied({"compile.mode": "reduce-overhead"})
    applied.model(nn.Linear(2, 1))(torch.ones(1, 2)).sum().backward()
    assert "CUDA graphs were skipped" in applied.check()[1]["compile.mode"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile's own
@pytest.mark.parametrize(("replayed", "works"), [(0, False), (3, True)])
def test_one_function_without_a_cuda_graph_does_not_condemn_the_others(
    replayed: int, works: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inductor counts each function that it could not capture; where others are replayed the setting has its effect."""
    from torch._dynamo.utils import counters

    monkeypatch.setitem(counters["stats"], "unique_graphs", 2)
    monkeypatch.setitem(counters["inductor"], "cudagraph_skips", 1)
    manager = SimpleNamespace(roots=dict.fromkeys(range(replayed)))
    monkeypatch.setattr("torch._inductor.cudagraph_trees.get_manager", lambda index, create_if_none_exists: manager)
    learned, ineffective = Applied({"compile.mode": "reduce-overhead"}, "cuda:0").check()
    assert ("compile.mode" in learned) is works
    assert ("compile.mode" in ineffective) is not works


@pytest.mark.long
def test_a_package_of_ones_own_brings_a_knob(tmp_path: Path) -> None:
    """It is listed, checked and applied like any other."""
    package = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    install += ["--disable-pip-version-check", "--target", str(package), str(ROOT / "examples" / "own_knob")]
    subprocess.run(install, check=True, capture_output=True)
    program = (
        "from autoaccel.space.knobs import KNOBS\n"
        "from autoaccel.runtime.applied import Applied\n"
        "assert KNOBS['own.deterministic'].group == 'precision'\n"
        "applied = Applied({'own.deterministic': True})\n"
        "print(applied.check()[0]['own.deterministic'])\n"
    )
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(package)!r})\n{program}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "algorithms are deterministic\n", done.stderr


BROUGHT = Path(__file__).parent / "brought"


def test_knobs_of_other_packages_do_whatever_built_in_ones_do(tmp_path: Path) -> None:
    """Batches, parts, arguments and state of the optimizer: see the program that is run."""
    installed = tmp_path / "brought-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n")
    names = "".join(f"{name} = brought_knobs:{name}\n" for name in ("BATCH", "PARTS", "MOMENTUM", "SCALE", "COPIES"))
    (installed / "entry_points.txt").write_text(f"[autoaccel.knobs]\n{names}")
    found = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, str(BROUGHT / "try_brought.py")],
        env={**os.environ, "PYTHONPATH": found},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "all of it works\n", done.stderr


@pytest.mark.parametrize("module", ["applied", "checkpoints", "user_code"])
def test_who_applies_effects_names_no_knob(module: str) -> None:
    source = (ROOT / "autoaccel" / "runtime" / f"{module}.py").read_text("utf-8")
    assert not [name for name in KNOBS if name in source]


@pytest.mark.parametrize("name", [name for name, knob in KNOBS.items() if knob.off is not None])
def test_a_knob_that_is_off_does_nothing(name: str, bench: Bench, workload: Workload) -> None:
    """Whatever its default is here; that this trains alike is another test."""
    knob, settings = KNOBS[name], {name: KNOBS[name].off}
    assert knob.off in (*knob.values(bench.context), knob.default(bench.context))
    assert not is_on(name, settings) and not environment_of(settings, bench.context)
    assert not modules_of(settings) and not slow_starting_knobs(settings)
    off = Applied(settings)
    assert (off.batch_factor, off.parts, off.shrinks_after) == (1.0, 1, None)
    assert not off.compiles and not off.copies_ahead
    assert (off.state_dict(), off.check()) == ({}, ({}, {}))


EARLIER = [
    ("loader.workers", "loader.persistent", "how many there are implies that they stay, unless it says otherwise"),
    ("loader.pin_memory", "loader.side_stream", "what is copied lies in pinned memory"),
    ("layout.channels_last", "compile.mode", "what is compiled has its layout"),
    ("model.biases", "compile.mode", "what is compiled has lost its biases"),
    ("memory.checkpointing", "compile.mode", "what is compiled computes its blocks again"),
    ("compile.mode", "parallel.world_size", "ranks wrap what is compiled"),
    ("parallel.world_size", "parallel.compression", "it is told to what wraps the model"),
    ("parallel.world_size", "parallel.sync", "it asks what wraps the model"),
    ("optimizer.fused", "ipex.optimize", "the extension may return another optimizer"),
    ("optimizer.foreach", "compile.optimizer", "what is compiled is the form that was chosen"),
    ("ipex.optimize", "compile.optimizer", "what is compiled is the update that is used"),
]


@pytest.mark.parametrize(("first", "then", "why"), EARLIER)
def test_effects_take_their_turns_in_the_order_that_they_rely_on(
    first: str, then: str, why: str, context: KnobContext
) -> None:
    """Whichever order the settings have."""
    settings = {name: default_settings(context)[name] for name in (then, first)}
    assert list(effects_of(settings, torch.device("cpu"), found={})) == [first, then], why


def test_the_page_of_knobs_is_what_they_declare() -> None:
    import runpy

    written = runpy.run_path(str(ROOT / "tools" / "write_knobs.py"))
    assert (ROOT / "docs" / "knobs.md").read_text("utf-8") == written["page"](), "run: python tools/write_knobs.py"
