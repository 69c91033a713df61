"""A simple model of what a training step takes on a machine, by its settings, so that the best of all is known.

No machine's truth: a landscape with the features by which large machines are hard to tune. Where a number below has a
source, it is named; the others are round numbers of the right size. What the model leaves out: caches, clocks that
depend on how many cores are busy, and everything that makes one kernel differ from another.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from autoaccel.records.machine import Machine
from autoaccel.records.settings import Settings
from autoaccel.records.workload import TrainingFacts
from autoaccel.space.knobs import is_on
from autoaccel.space.knobs.cpus import count_cores, cpus_of, fast_cpus_of, nodes_of
from autoaccel.space.knobs.parallel import count_processes

_SERIAL = 0.01  # of a dense operator: what one thread does while the others wait (Amdahl, 1967)
_CORE_BYTES, _NODE_BYTES = 10e9, 120e9  # per second that one core, and one memory node, reads and writes
_REMOTE = 0.7  # by which share memory of another node is slower: 130 to 140 ns against 80 (chipsandcheese.com, 2024)
_REMOTE_DENSE = 0.15  # the same for operators that mostly compute
_SLOW_CORE = 0.5  # of a fast core's speed, of the slower kind
_WAITING = 0.5  # by how much longer a step takes for each thread too many on a core: barriers wait for who does not run
_SHARED = 1.04  # the same where some threads may come to share a core, because its two CPUs are both allowed
_LAUNCH_SECONDS = 5e-6  # of an operator from Python: PyTorch's own overhead benchmarks
_BARRIER_SECONDS = 1e-6  # of an operator's threads, for each doubling of their number; twice that across sockets
_INTEL_BARRIER = 0.7
_ALLOCATOR = 0.92  # of the time of what moves memory, with jemalloc or tcmalloc
_SHORT = {"amx_bf16": 5.0, "avx512_bf16": 2.0, "bf16": 2.0}  # bfloat16 over float32 in dense operators, by unit
_EMULATED = 0.6
_LAYOUT, _SHORT_LAYOUT = 1.1, 1.3  # channels last on convolutions: alone, and in a short type
_FUSED_OPERATORS, _FUSED_BYTES = 3.0, 1.6  # by how much a compiler makes operators fewer, and moves less on a GPU
_FUSED_BYTES_ON_CPU = 1.2  # on the tables of two cores the best that compiling won beside others was 1.15x
_PASSES, _FUSED_PASSES = 5, 3  # over all parameters, of an update
_RANK_SECONDS, _START_SECONDS = 0.5, 3.0  # a process's start: for each rank, and in any case
_MEETING_SECONDS = 5e-5  # for each rank, to agree on gradients
_HANDOVER_SECONDS = 5e-4  # of a batch from a worker to the step

_TF32 = 4.0  # over float32: half of an A100's 156 over 19.5 TFLOP/s
_SHORT_ON_GPU = 6.0
_GPU_BYTES, _LINK_BYTES = 1e12, 1e11  # per second: its memory; NVLink, all-reduce
_PAGEABLE_BYTES, _PINNED_BYTES = 6e9, 20e9
_SEARCHED = 1.08  # cuDNN's search, on convolutions
_GRAPHED = 12.0  # by how much CUDA graphs make launches fewer, beyond fusing
_KERNELS = {"auto": 1.0, "flash": 1.0, "cudnn": 0.95, "efficient": 0.85, "math": 0.4}  # speed of attention
_COMPILE_SECONDS = {"default": 30.0, "reduce-overhead": 35.0, "max-autotune": 150.0}


@dataclass(frozen=True)
class Work:
    """What a step of a training consists of under its user's own settings."""

    facts: TrainingFacts
    dense_seconds: float  # products and convolutions in float32, on one core or one GPU
    moved_bytes: float  # by all other operators
    operators: int
    python_seconds: float  # between them, in each process
    parameter_bytes: float
    batch_bytes: float
    loading_seconds: float  # of a batch, in one process
    asleep: float  # share of these


def draw_work(machine: Machine, facts: TrainingFacts, seed: int) -> Work:
    """Return a training by chance: steps of about 0.05 to 3 s, one of three waits for its data."""
    draw = random.Random(seed)

    def between(low: float, high: float) -> float:
        return math.exp(draw.uniform(math.log(low), math.log(high)))

    on_gpu = facts.device == "cuda"
    step_seconds = between(0.05, 3.0)
    share = draw.uniform(0.3, 0.8)  # of products and convolutions
    parallel = 1 if on_gpu else max(1.0, 0.6 * machine.usable_physical_cores)
    rate = _GPU_BYTES if on_gpu else min(_NODE_BYTES, machine.usable_physical_cores * _CORE_BYTES)
    convolutional = draw.random() < 0.5
    waits = draw.random() < 1 / 3
    loading_seconds = step_seconds * (between(0.3, 6.0) if waits else 0.01)
    drawn = msgspec.structs.replace(
        facts,
        batch_size=draw.choice((32, 64, 128, 256)),
        has_image_convolutions=convolutional,
        has_convolutions=convolutional,
        repeated_blocks=0 if convolutional else 8,
    )
    return Work(
        facts=drawn,
        dense_seconds=share * step_seconds * parallel,
        moved_bytes=(1 - share) * step_seconds * rate,
        operators=round(between(200, 5000)),
        python_seconds=between(5e-4, 5e-3),
        parameter_bytes=between(4e6, 5e8),
        batch_bytes=between(1e5, 1e8),
        loading_seconds=loading_seconds,
        asleep=draw.choice((0.0, 0.0, 0.8)),
    )


class Cpus(NamedTuple):
    """What some CPUs are of a machine."""

    cores: int  # that may be kept busy
    nodes: int
    fast: int  # cores of the faster kind
    has_siblings: bool  # some core has two of them


class Model:
    """A machine and a training on it."""

    def __init__(self, machine: Machine, work: Work) -> None:
        self.machine = machine
        self.work = work
        self._places: dict[str, Cpus] = {}

    def cpus(self, affinity: str) -> Cpus:
        """Return what a process that keeps to some CPUs has."""
        if affinity not in self._places:
            machine, kept = self.machine, set(cpus_of(affinity, self.machine))
            self._places[affinity] = Cpus(
                cores=min(machine.usable_physical_cores, count_cores(machine, kept)),
                nodes=sum(not kept.isdisjoint(node) for node in nodes_of(machine)),
                fast=count_cores(machine, kept.intersection(fast_cpus_of(machine))),
                has_siblings=len(kept) > count_cores(machine, kept),
            )
        return self._places[affinity]

    def step_seconds(self, settings: Settings) -> float:
        """Return what a step takes."""
        return sum(self.parts(settings).values())

    def compile_seconds(self, settings: Settings) -> float:
        """Return by how much the first steps take longer."""
        whole = settings["compile.region"] == "model"
        return _COMPILE_SECONDS.get(str(settings["compile.mode"]), 0.0) * (1.0 if whole else 0.4)

    def start_seconds(self, settings: Settings) -> float:
        """Return what a process takes to its first step, or all ranks together."""
        return _START_SECONDS + _RANK_SECONDS * (count_processes(settings) - 1)

    def parts(self, settings: Settings) -> dict[str, float]:
        """Return the seconds of a step that are dense, move memory, launch, update, agree, are Python's, and wait."""
        on_gpu = self.work.facts.device == "cuda"
        return self._with_loading(settings, self._on_gpu(settings) if on_gpu else self._on_cpu(settings))

    def _on_cpu(self, settings: Settings) -> dict[str, float]:
        work, ranks = self.work, count_processes(settings)
        threads = max(1, int(settings["threads.intra_op"]) // ranks)
        cores, nodes, fast, siblings = self.cpus(str(settings["threads.affinity"]))
        # Threads that nobody binds are spread over all nodes; ranks keep to cores of their own.
        span = 1 if threads == 1 else math.ceil(nodes / ranks)
        speed = _SLOW_CORE if threads * ranks > fast else 1.0  # an operator's equal parts wait for the slowest
        busy = min(threads, max(1, cores // ranks)) * speed
        part = self._part(ranks)
        crowded = 1 + _WAITING * max(0.0, threads * ranks / cores - 1)
        crowded *= _SHARED if siblings and 2 * threads * ranks > cores else 1.0
        far = (span - 1) / span
        shared = min(busy * _CORE_BYTES, min(nodes, span * ranks) * _NODE_BYTES / ranks) / (1 + _REMOTE * far)

        compiled = is_on("compile.mode", settings)
        moved = work.moved_bytes * part / self._shorter(settings) / (_FUSED_BYTES_ON_CPU if compiled else 1.0)
        plain = not is_on("memory.allocator", settings)
        barrier = _BARRIER_SECONDS * math.log2(threads) * (2 if span > 1 else 1)
        barrier *= _INTEL_BARRIER if settings["threads.openmp"] == "intel" else 1.0
        operators = work.operators / (_FUSED_OPERATORS if compiled else 1.0)
        serial, gain = _SERIAL + (1 - _SERIAL) / busy, self._dense_gain(settings)
        passes = _FUSED_PASSES if settings["optimizer.fused"] else _PASSES
        return {
            "dense": work.dense_seconds * part / gain * serial * (1 + _REMOTE_DENSE * far) * crowded,
            "moving": moved / shared * (1.0 if plain else _ALLOCATOR) * crowded,
            "launching": operators * (_LAUNCH_SECONDS + barrier) * crowded,
            "update": passes * work.parameter_bytes / shared * crowded,
            "agreeing": (2 * work.parameter_bytes / shared + ranks * _MEETING_SECONDS) if ranks > 1 else 0.0,
            "python": work.python_seconds,
        }

    def _on_gpu(self, settings: Settings) -> dict[str, float]:
        work, ranks, mode = self.work, count_processes(settings), str(settings["compile.mode"])
        compiled, graphed = is_on("compile.mode", settings), mode in ("reduce-overhead", "max-autotune")
        short = self._short(settings)
        gain = _SHORT_ON_GPU if short else _TF32 if settings["precision.float32_matmul"] == "high" else 1.0
        if work.facts.has_image_convolutions:
            gain *= _SEARCHED if settings["precision.cudnn_benchmark"] else 1.0
            gain *= (_SHORT_LAYOUT if short else 1 / _LAYOUT) if settings["layout.channels_last"] else 1.0
        else:
            gain *= _KERNELS[str(settings["model.attention"])] ** 0.3  # attention is a part of what is dense
        gain *= 1.03 if mode == "max-autotune" else 1.0
        part = self._part(ranks)
        moved = work.moved_bytes * part / self._shorter(settings) / (_FUSED_BYTES if compiled else 1.0)
        passes = _FUSED_PASSES if settings["optimizer.fused"] else _PASSES
        operators = work.operators / (_FUSED_OPERATORS if compiled else 1.0) / (_GRAPHED if graphed else 1.0)
        found = {
            "dense": work.dense_seconds * part / gain,
            "moving": moved / _GPU_BYTES,
            "update": passes * work.parameter_bytes / _GPU_BYTES,
            "agreeing": 0.5 * (2 * work.parameter_bytes / _LINK_BYTES + ranks * _MEETING_SECONDS) if ranks > 1 else 0.0,
            "python": work.python_seconds,
        }
        # The program runs ahead of the GPU, unless it launches more slowly than that computes.
        computing = found["dense"] + found["moving"] + found["update"]
        found["launching"] = max(0.0, operators * _LAUNCH_SECONDS - computing)
        pinned = bool(settings["loader.pin_memory"])
        hidden = pinned and (settings["loader.non_blocking"] or settings["loader.side_stream"])
        copied = work.batch_bytes * part / (_PINNED_BYTES if pinned else _PAGEABLE_BYTES)
        found["copying"] = 0.2 * copied if hidden else copied
        return found

    def _with_loading(self, settings: Settings, found: dict[str, float]) -> dict[str, float]:
        """Add the wait for data; workers take cores from a training on the CPU."""
        work, workers, ranks = self.work, int(settings["loader.workers"]), count_processes(settings)
        computing = sum(found.values())
        if workers == 0:
            return {**found, "wait": work.loading_seconds / ranks}
        cores = self.machine.usable_physical_cores
        taken = min(workers, work.loading_seconds * (1 - work.asleep) / computing)
        on_cpu = work.facts.device != "cuda"
        threads = min(cores, max(int(settings["threads.intra_op"]), ranks)) if on_cpu else 0
        slower = max(1.0, (threads + taken) / cores)
        found = {name: seconds * (slower if on_cpu else 1.0) for name, seconds in found.items()}
        rate = min(workers, cores / max(1e-9, 1 - work.asleep)) / slower
        late = max(0.0, work.loading_seconds / rate - sum(found.values()))
        return {**found, "wait": late + _HANDOVER_SECONDS}

    def _part(self, ranks: int) -> float:
        """Return the share of the batch that the rank with most of it has: the others wait for it."""
        batch = self.work.facts.batch_size or 1
        return math.ceil(batch / ranks) / batch

    def _short(self, settings: Settings) -> bool:
        return is_on("precision.autocast", settings)

    def _shorter(self, settings: Settings) -> float:
        """Return by how much less the operators between dense ones move."""
        return 1.6 if self._short(settings) else 1.0

    def _dense_gain(self, settings: Settings) -> float:
        """Return by how much faster than in float32, channels first, a CPU computes products and convolutions."""
        gain = 1.0
        if settings["precision.autocast"] == "bfloat16":
            gain = max((_SHORT[unit] for unit in self.machine.cpu.features if unit in _SHORT), default=_EMULATED)
        elif self._short(settings):
            gain = _EMULATED
        if self.work.facts.has_image_convolutions and settings["layout.channels_last"]:
            gain *= _SHORT_LAYOUT if self._short(settings) else _LAYOUT
        return gain
