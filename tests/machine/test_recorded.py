"""What would be searched and tried first on machines that are only recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from autoaccel.advise.candidates import first_candidates
from autoaccel.records.base import decode
from autoaccel.records.machine import Machine
from autoaccel.records.profile import Demand, Finding
from autoaccel.records.settings import Settings, changed
from autoaccel.records.space import SearchSpace
from autoaccel.records.workload import TrainingFacts
from autoaccel.space.knobs import KNOBS, KnobContext, baseline_settings, check_value, environment_of
from autoaccel.space.knobs.cpus import count_cores, cpus_of
from autoaccel.space.search_space import load_space
from autoaccel.workers.shares import context_on, cores_of

FOLDER = Path(__file__).parent / "recorded"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
GIB = 1 << 30
WAITS = Finding("data-wait", "it waits", 0.5, 2.0, ("loader.workers",))
On = Callable[..., KnobContext]


def recorded(name: str) -> Machine:
    return decode((FOLDER / f"{name}.json").read_bytes(), Machine)


@pytest.fixture
def on(facts: TrainingFacts) -> On:
    """Return a function that makes the training of images a training on a recorded machine, measured if asked."""

    def make(name: str, demand: Demand | None = None, **changes: object) -> KnobContext:
        machine = recorded(name)
        assert machine.torch is not None
        return KnobContext(
            machine, msgspec.structs.replace(facts, **{"device": machine.torch.device, **changes}), demand
        )

    return make


def space_of(context: KnobContext) -> SearchSpace:
    return load_space("default", context)


def guesses(context: KnobContext, *findings: Finding) -> list[Settings]:
    """Return what each first guess changes, in their order."""
    baseline = baseline_settings(context)
    return [
        changed(settings, baseline) for settings in first_candidates(space_of(context), context, baseline, findings)
    ]


def test_there_is_a_machine_of_each_kind() -> None:
    assert NAMES == ["a100-8", "arm-64", "container-8", "laptop", "rtx-4090", "xeon-2x32"]
    for name in NAMES:
        machine = recorded(name)
        assert len(machine.limits.affinity) == machine.cpu.logical_cores
        assert len(machine.limits.cores) == machine.limits.physical_cores == machine.cpu.physical_cores
        for groups in (machine.limits.cores, machine.cpu.socket_cpus, [node.cpus for node in machine.cpu.numa_nodes]):
            assert sorted(cpu for group in groups for cpu in group) == list(machine.limits.affinity)


@pytest.mark.parametrize("batch_size", [8, 64, 1024])
@pytest.mark.parametrize("loading_seconds", [None, 1e-3, 0.5, 30.0])
@pytest.mark.parametrize("name", NAMES)
def test_no_value_is_offered_that_cannot_work(
    on: On, name: str, loading_seconds: float | None, batch_size: int
) -> None:
    """128 ranks of half a sample, 128 loader workers on 64 cores, threads for CPUs that a quota takes back."""
    demand = Demand(0.1, 3 * GIB, loading_seconds, loading_seconds)
    context = on(name, demand, batch_size=batch_size)
    machine, baseline = context.machine, baseline_settings(context)
    space = space_of(context)
    for knob, values in space.open.items():
        assert values[0] == baseline[knob]
        assert len(values) == len(set(values)) > 1
        assert all(check_value(KNOBS[knob], value, context, "test") == value for value in values[1:])
    cores = machine.usable_physical_cores
    for ranks in space.open.get("parallel.world_size", (1,)):
        assert batch_size >= 4 * ranks or ranks == 1
        if context.device == "cpu":
            assert ranks <= cores
            assert ranks == 1 or (ranks + 1) * demand.peak_bytes <= machine.usable_memory_bytes
            assert len(cores_of(context, "none", ranks)) == ranks
        else:
            assert ranks <= len(machine.gpus)
    assert all(workers <= cores for workers in space.open.get("loader.workers", (0,)))
    assert all(threads <= cores for threads in space.open["threads.intra_op"][1:])
    for affinity in space.open.get("threads.affinity", ("none",))[1:]:
        cpus = cpus_of(str(affinity), machine)
        assert set(cpus) < set(machine.limits.affinity)
        assert environment_of({"threads.affinity": affinity}, context)
        for threads in space.open["threads.intra_op"]:
            fits = int(threads) <= count_cores(machine, cpus)
            together = {**baseline, "threads.affinity": affinity, "threads.intra_op": threads}
            assert space.allows(together) == (fits or context.device != "cpu")


@pytest.mark.parametrize(
    ("name", "threads", "affinity", "ranks"),
    [
        ("laptop", (12, 6, 4, 1), ("none", "cores", "fast"), (1, 2, 6)),
        ("arm-64", (64, 32, 8, 1), None, (1, 2, 8)),
        ("xeon-2x32", (64, 32, 8, 1), ("none", "cores", "node"), (1, 2, 8)),
        ("container-8", (64, 8, 4, 1), ("none", "cores", "node"), (1, 2, 8)),
        ("rtx-4090", (16, 1), None, None),
        ("a100-8", (128, 1), ("none", "node"), (1, 2, 4, 8)),
    ],
)
def test_counts_come_from_the_machines_parts(
    on: On, name: str, threads: tuple[int, ...], affinity: tuple[str, ...] | None, ranks: tuple[int, ...] | None
) -> None:
    space = space_of(on(name))
    assert space.open["threads.intra_op"] == threads
    assert space.open.get("threads.affinity") == affinity
    assert space.open.get("parallel.world_size") == ranks


def test_memory_nodes_and_sockets_that_differ_are_both_offered(on: On) -> None:
    """A DGX's processors alone: four memory nodes a socket."""
    gpus = recorded("a100-8")
    assert gpus.torch is not None
    torch = msgspec.structs.replace(gpus.torch, device="cpu", gpus=(), attention={})
    context = on("a100-8", batch_size=1024)
    context = KnobContext(
        msgspec.structs.replace(gpus, torch=torch), msgspec.structs.replace(context.training, device="cpu")
    )
    space = space_of(context)
    assert space.open["threads.intra_op"] == (128, 64, 16, 4, 1)
    assert space.open["threads.affinity"] == ("none", "cores", "node", "socket")
    assert space.open["parallel.world_size"] == (1, 2, 8)


def test_one_process_on_several_memory_nodes_may_keep_to_the_one_next_to_its_gpu(on: On) -> None:
    context = on("a100-8")
    assert environment_of({"threads.affinity": "node"}, context) == {"AUTOACCEL_CPUS": "48-63,176-191"}
    assert environment_of({"threads.affinity": "node"}, on("a100-8", device="cuda:4")) == {
        "AUTOACCEL_CPUS": "112-127,240-255"
    }
    # A recipe knows the device, and whoever starts a training with it nothing else of that training.
    for device in ("cuda", "cuda:4", "cpu"):
        tuned, run = on("a100-8", device=device), context_on(context.machine, device)
        assert (run.device, run.training) == (tuned.device, None)
        node: Settings = {"threads.affinity": "node"}
        assert environment_of(node, run) == environment_of(node, tuned)
    assert context_on(recorded("laptop"), "cuda").device == "cpu"
    assert context_on(recorded("a100-8"), "").device == "cuda"  # of an early recipe


@pytest.mark.parametrize(
    ("seconds", "workers"),
    [
        (None, (0, 1, 2, 4)),  # nobody has measured
        (0.001, (0, 1)),  # of a step of 0.1 s: nothing to gain
        (0.15, (0, 2, 3, 5)),  # five for a step that other settings make three times as fast
        (1.2, (0, 12, 13, 36)),
        (5.0, (0, 32, 50, 51, 64)),
        (30.0, (0, 32, 64)),
    ],
)
def test_workers_are_those_that_keep_up_with_the_step(on: On, seconds: float | None, workers: tuple[int, ...]) -> None:
    demand = Demand(0.1, GIB, seconds, seconds)
    assert space_of(on("arm-64", demand)).open["loader.workers"] == workers


def test_workers_that_sleep_need_no_core_each(on: On) -> None:
    waiting = Demand(step_seconds=0.1, peak_bytes=GIB, loading_seconds=4.0, busy_seconds=0.2)
    assert space_of(on("container-8", waiting)).open["loader.workers"] == (0, 16, 32)


def test_several_gpus_take_several_times_the_workers(on: On) -> None:
    assert space_of(on("a100-8", Demand(0.1, GIB, 0.15, 0.15))).open["loader.workers"] == (0, 2, 3, 9, 72)
    assert space_of(on("a100-8")).open["loader.workers"] == (0, 1, 2, 4, 32)


def test_cores_are_shared_out_between_threads_and_workers_as_their_work_is(on: On) -> None:
    def threads(seconds: float, busy: float) -> tuple[object, ...]:
        return space_of(on("arm-64", Demand(0.1, GIB, seconds, busy))).open["threads.intra_op"]

    # A step that others make three times as fast: 64 cores for 0.033 s of it; a batch keeps one busy for 0.4 s.
    assert threads(0.4, 0.4) == (64, 54, 32, 8, 1)
    assert threads(0.4, 0.04) == (64, 63, 32, 8, 1)  # workers that sleep take fewer
    assert threads(30.0, 30.0) == (64, 32, 8, 4, 1)  # though they would wait for data all the same
    assert threads(0.001, 0.001) == (64, 32, 8, 1)


def test_ranks_are_no_more_than_the_memory_holds(on: On) -> None:
    def ranks(name: str, peak_bytes: int) -> tuple[object, ...]:
        return space_of(on(name, Demand(0.1, peak_bytes))).open.get("parallel.world_size", ())

    assert ranks("container-8", 3 * GIB) == (1, 2, 8)
    assert ranks("container-8", 5 * GIB) == (1, 2)
    assert ranks("container-8", 12 * GIB) == ()
    closed = space_of(on("container-8", Demand(0.1, 12 * GIB))).closed["parallel.world_size"]
    assert closed == "2 ranks beside your own training take up to 36 GiB, but there are only 32 GiB"
    closed = space_of(on("container-8", batch_size=6)).closed["parallel.world_size"]
    assert closed == "a batch of 6 samples leaves each of 2 ranks fewer than 4"


BEST = {"precision.autocast": "bfloat16", "layout.channels_last": True, "optimizer.fused": True}
APART = {**BEST, "threads.affinity": "cores"}  # second threads of cores left alone
ON_GPU = {**BEST, "precision.float32_matmul": "high", "precision.cudnn_benchmark": True}


@pytest.mark.parametrize(
    ("name", "first"),
    [
        (
            "laptop",
            [
                {"layout.channels_last": True, "optimizer.fused": True},
                {
                    "layout.channels_last": True,
                    "optimizer.fused": True,
                    "threads.affinity": "fast",
                    "threads.intra_op": 4,
                },
            ],
        ),
        ("arm-64", [BEST, {**BEST, "parallel.world_size": 8}]),
        (
            "xeon-2x32",
            [
                APART,
                {**APART, "parallel.world_size": 2},
                {**BEST, "threads.affinity": "node", "threads.intra_op": 32},
            ],
        ),
        (
            "container-8",
            [
                {**BEST, "threads.intra_op": 8, "threads.affinity": "node"},
                {**APART, "threads.intra_op": 8, "parallel.world_size": 2},
                {**APART, "threads.intra_op": 8},
            ],
        ),
        ("rtx-4090", [ON_GPU, {**ON_GPU, "compile.mode": "default"}]),
        ("a100-8", [ON_GPU, {**ON_GPU, "parallel.world_size": 8}, {**ON_GPU, "compile.mode": "default"}]),
    ],
)
def test_what_is_tried_first(on: On, name: str, first: list[Settings]) -> None:
    copies = {"loader.pin_memory": True, "loader.non_blocking": True} if recorded(name).gpus else {}
    assert guesses(on(name))[: len(first)] == [{**settings, **copies} for settings in first]


@pytest.mark.parametrize("name", NAMES)
def test_no_guess_leaves_the_space(on: On, name: str) -> None:
    for demand in (None, Demand(0.1, GIB, 0.3, 0.3)):
        context = on(name, demand)
        baseline, space = baseline_settings(context), space_of(context)
        found = first_candidates(space, context, baseline, [WAITS])
        assert found
        for settings in found:
            assert space.allows(settings)
            assert all(settings[knob] in values for knob, values in space.open.items())
            assert changed(settings, baseline).keys() <= space.open.keys()


def test_a_guess_for_data_that_is_late_has_as_many_workers_as_needed(on: On) -> None:
    demand = Demand(0.1, GIB, 0.35, 0.35)
    assert guesses(on("arm-64", demand), WAITS)[0]["loader.workers"] == 11
    first = guesses(on("a100-8", demand), WAITS)
    assert first[0]["loader.workers"] == 21
    assert next(guess for guess in first if "parallel.world_size" in guess)["loader.workers"] == 128  # all cores


def test_workers_that_take_the_cores_are_guessed_with_fewer_threads(on: On) -> None:
    first, second, third = guesses(on("container-8", Demand(0.1, GIB, 0.2, 0.2)), WAITS)[:3]
    assert (first["loader.workers"], first["threads.intra_op"]) == (4, 8)
    assert (second["loader.workers"], second["threads.intra_op"]) == (4, 4)
    assert third["threads.intra_op"] == 8
    assert all("threads.intra_op" not in guess for guess in guesses(on("arm-64", Demand(0.1, GIB, 0.2, 0.2)), WAITS))


def test_what_guides_advise_beside_it_is_guessed_next_where_it_is_installed(on: On) -> None:
    """A rank for each socket, compiled; the same with Intel's OpenMP and an allocator."""
    ranks = {**APART, "parallel.world_size": 2}
    libraries = {"threads.openmp": "intel", "memory.allocator": "tcmalloc"}
    assert guesses(on("xeon-2x32"))[3:5] == [{**ranks, "compile.mode": "default"}, {**ranks, **libraries}]
    assert not any("threads.openmp" in guess for guess in guesses(on("arm-64")))


def test_freed_memory_is_guessed_to_stay_where_glibc_alone_hands_it_out(on: On) -> None:
    server = on("xeon-2x32")
    with_glibc = guesses(KnobContext(msgspec.structs.replace(server.machine, libc="glibc 2.36"), server.training))
    assert "memory.keep_freed" not in guesses(server)[0]
    assert with_glibc[0] == {**guesses(server)[0], "memory.keep_freed": True}
    (of_guides,) = [guess for guess in with_glibc if "memory.allocator" in guess]
    assert "memory.keep_freed" not in of_guides  # another allocator does that itself
    assert {"memory.keep_freed": True} in with_glibc


def test_data_that_will_be_late_for_a_faster_step_are_guessed_with_workers(on: On) -> None:
    """Loading takes a fifth of a step that other settings make three times as fast, eight times with AMX."""
    assert guesses(on("arm-64", Demand(0.1, GIB, 0.02, 0.02)))[0]["loader.workers"] == 1
    assert guesses(on("xeon-2x32", Demand(0.1, GIB, 0.02, 0.02)))[0]["loader.workers"] == 2
    assert "loader.workers" not in guesses(on("arm-64", Demand(0.1, GIB, 0.006, 0.006)))[0]


def test_a_gpu_without_bfloat16_is_guessed_to_want_float16(on: On) -> None:
    """torch emulates what a T4 lacks, so that it seems to train in bfloat16."""
    context = on("rtx-4090")
    assert context.machine.torch is not None
    kernels = {"efficient": ("float32", "float16"), "math": ("float32", "bfloat16", "float16")}
    old = msgspec.structs.replace(context.machine.torch, attention=kernels)
    machine = msgspec.structs.replace(context.machine, torch=old)
    assert guesses(KnobContext(machine, context.training))[0]["precision.autocast"] == "float16"


def test_ranks_on_memory_nodes_of_their_own_are_not_told_to_keep_to_one(on: On) -> None:
    space = space_of(on("xeon-2x32"))
    baseline = baseline_settings(on("xeon-2x32"))
    assert not space.allows({**baseline, "parallel.world_size": 2, "threads.affinity": "node", "threads.intra_op": 32})
    assert space.allows({**baseline, "parallel.world_size": 2, "threads.affinity": "cores"})
    assert not space.allows({**baseline, "parallel.world_size": 2, "threads.intra_op": 1})  # is another count's double
