"""Rules about cores, clocks, neighbours and versions."""

from __future__ import annotations

import datetime
import re

from autoaccel.advise.observations import Gain, Observations, Rule, make_finding
from autoaccel.records.profile import Finding

_SLOW_CLOCK = 0.85  # of the highest; all cores under load stay a little below what one core may reach
_TURBO_SHARE = 0.2  # usual distance between base and turbo clock of all cores
_BUSY = 0.15  # of the cores
_STOLEN = 0.02
_OLD_MONTHS = 18
# PyTorch's release notes: when each version came out. A later one is not old.
_RELEASED = {
    (2, 0): "2023-03", (2, 1): "2023-10", (2, 2): "2024-01", (2, 3): "2024-04", (2, 4): "2024-07", (2, 5): "2024-10",
    (2, 6): "2025-01", (2, 7): "2025-04", (2, 8): "2025-08", (2, 9): "2025-10",
}  # fmt: skip


def few_threads(observed: Observations) -> Finding | None:
    """Cores are idle."""
    conditions = observed.conditions
    if conditions is None or observed.on_gpu:
        return None
    cores = min(observed.machine.usable_cores, max(1, observed.machine.limits.physical_cores))
    workers = conditions.loader.workers if conditions.loader else 0
    if conditions.threads >= cores - min(workers, cores - 1):
        return None
    parallel = observed.compute + observed.update
    share = parallel * (1 - conditions.threads / cores)
    finding = make_finding(
        "few-threads",
        f"torch uses {conditions.threads} of {cores} cores",
        Gain(share, removable=0.6),
        f"torch.set_num_threads({cores}), or unset OMP_NUM_THREADS: torchrun and cluster scripts set it to 1.",
        knobs=("threads.intra_op",),
        numbers={"threads": conditions.threads, "cores": cores},
    )
    measured = conditions.switched.get("threads")
    if measured is None or measured.without_seconds <= 0:
        return finding
    if measured.step_seconds < measured.without_seconds:
        return None  # small tensors: more threads only wait for each other
    won = 1 - measured.without_seconds / measured.step_seconds
    numbers = {**finding.numbers, "step_seconds": measured.step_seconds,
                        "with_all_cores_seconds": measured.without_seconds}  # fmt: skip
    gain = Gain(share, removable=min(1.0, won / share), claims_half=won >= 0.7 * share)
    return make_finding(finding.code, finding.title, gain, finding.advice, finding.knobs, numbers)


def many_threads(observed: Observations) -> Finding | None:
    """More threads than cores: they wait for each other."""
    conditions = observed.conditions
    if conditions is None or observed.on_gpu:
        return None
    cores = observed.machine.usable_cores
    measured = conditions.switched.get("threads")
    if conditions.threads <= cores or measured is None or measured.step_seconds <= 1.02 * measured.without_seconds:
        return None
    return make_finding(
        "many-threads",
        f"torch uses {conditions.threads} threads on {cores} cores",
        Gain(1 - measured.without_seconds / measured.step_seconds, bound_speedup=measured.bound_speedup),
        f"torch.set_num_threads({cores}): threads that share a core keep each other waiting.",
        knobs=("threads.intra_op",),
        numbers={
            "threads": conditions.threads,
            "cores": cores,
            "step_seconds": measured.step_seconds,
            "with_one_each_seconds": measured.without_seconds,
        },
    )


def cpu_quota(observed: Observations) -> Finding | None:
    """A container may use less time than its cores have, and is stopped in between."""
    limits = observed.machine.limits
    allowed = len(limits.affinity)
    if limits.cpu_quota is None or limits.cpu_quota >= allowed or observed.conditions is None:
        return None
    throttled = observed.machine_conditions.throttled_periods if observed.machine_conditions else 0
    return make_finding(
        "cpu-quota",
        f"this container sees {allowed} cores but has a CPU quota of {limits.cpu_quota:g}, so it is throttled",
        Gain((1 - observed.data_wait) * (1 - limits.cpu_quota / allowed), removable=0.3),
        "Raise the quota, or pin the container to that many cores (docker run --cpuset-cpus).",
        knobs=("threads.intra_op",),
        numbers={"quota": limits.cpu_quota, "cores": allowed, "throttled_periods": throttled},
    )


def slow_clock(observed: Observations) -> Finding | None:
    """The processor runs below its highest clock."""
    machine_conditions = observed.machine_conditions
    if machine_conditions is None or observed.on_gpu:
        return None
    # The governors of these drivers are hints to the processor, which raises its clock under load all the same.
    own_clock = machine_conditions.clock_driver in ("intel_pstate", "amd-pstate-epp")
    slow = machine_conditions.clock_share is not None and machine_conditions.clock_share < _SLOW_CLOCK
    saving = machine_conditions.governor == "powersave" and not own_clock
    if not (slow and saving) and machine_conditions.turbo is not False:
        return None
    share = 1 - (machine_conditions.clock_share or 1.0) if slow and saving else _TURBO_SHARE
    what = f"the CPU frequency governor is {machine_conditions.governor}" if saving else "turbo is off"
    return make_finding(
        "slow-clock",
        f"the processor may not run at full speed: {what}",
        Gain(share, removable=0.7),
        "sudo cpupower frequency-set --governor performance"
        if saving
        else "Turn turbo on: /sys/devices/system/cpu/intel_pstate/no_turbo or cpufreq/boost.",
        numbers={"clock_share": machine_conditions.clock_share or 0.0},
    )


def neighbours(observed: Observations) -> Finding | None:
    """Others use the same cores."""
    machine_conditions = observed.machine_conditions
    if machine_conditions is None or (
        machine_conditions.busy_share < _BUSY and machine_conditions.stolen_share < _STOLEN
    ):
        return None
    share = min(0.9, machine_conditions.busy_share + machine_conditions.stolen_share)
    return make_finding(
        "neighbours",
        f"other programs keep {machine_conditions.busy_share:.0%} of the cores busy, the host takes "
        f"{machine_conditions.stolen_share:.0%}",
        # It passes, and says nothing of the training.
        Gain(share, removable=0.03),
        "Stop them, or train on a dedicated machine; these timings are unsteady.",
        numbers={"busy_share": machine_conditions.busy_share, "stolen_share": machine_conditions.stolen_share},
    )


def old_torch(observed: Observations) -> Finding | None:
    """Kernels get faster from version to version."""
    conditions = observed.conditions
    version = re.match(r"(\d+)\.(\d+)", conditions.torch_version) if conditions else None
    released = _RELEASED.get((int(version[1]), int(version[2]))) if version else None
    if conditions is None or released is None:
        return None
    today = datetime.date.fromisoformat(conditions.date)
    year, month = map(int, released.split("-"))
    months = 12 * (today.year - year) + today.month - month
    if months < _OLD_MONTHS:
        return None
    return make_finding(
        "old-torch",
        f"torch {conditions.torch_version} is {months} months old",
        Gain(observed.compute + observed.update, removable=0.05),
        "pip install --upgrade torch: newer versions have faster kernels.",
        numbers={"months": months},
    )


def unused_gpu(observed: Observations) -> Finding | None:
    """There is a GPU and the training does not use it."""
    conditions = observed.conditions
    if conditions is None or observed.on_gpu:
        return None
    hidden = observed.machine.shown_gpus == 0  # by whoever set CUDA_VISIBLE_DEVICES
    if not conditions.cuda_available and (hidden or not observed.machine.gpus):
        return None
    advice = (
        'Remove device="cpu" from Training(...).'
        if conditions.cuda_available
        else "Install a build of torch for CUDA: this build cannot use the GPU (see pytorch.org)."
    )
    return make_finding(
        "unused-gpu",
        "the training runs on the CPU although there is a GPU",
        Gain(observed.compute + observed.update, removable=0.9),
        advice,
    )


RULES: dict[str, Rule] = {
    "few-threads": few_threads,
    "many-threads": many_threads,
    "cpu-quota": cpu_quota,
    "slow-clock": slow_clock,
    "neighbours": neighbours,
    "old-torch": old_torch,
    "unused-gpu": unused_gpu,
}
