"""Rules that read causes off a profile. Each is a small pure function that abstains where it has no evidence."""

from __future__ import annotations

from collections.abc import Callable

from autoaccel.advise.bounds import bound_of_share
from autoaccel.records.machine import Machine
from autoaccel.records.profile import Finding, Profile

Rule = Callable[[Profile, Machine], Finding | None]


def _data_wait(profile: Profile, machine: Machine) -> Finding | None:
    share = profile.phases["data wait"]
    return Finding(
        code="data-wait",
        title=f"the step waits {share:.1%} of its time for data",
        share=share,
        bound_speedup=bound_of_share(share),
        knobs=(
            "loader.workers",
            "loader.prefetch",
            "loader.persistent",
            "loader.context",
            "loader.cache",
            "threads.loader_cores",
        ),
        advice="Prepare batches in loader workers, or make the transforms cheaper.",
    )


def _optimizer(profile: Profile, machine: Machine) -> Finding | None:
    share = profile.phases["optimizer"]
    return Finding(
        code="optimizer",
        title=f"the optimizer takes {share:.1%} of the step",
        share=share,
        bound_speedup=bound_of_share(share),
        knobs=("optimizer.fused", "optimizer.foreach", "compile.optimizer"),
        advice="A fused optimizer passes over the parameters once.",
    )


def _copies_to_device(profile: Profile, machine: Machine) -> Finding | None:
    share = profile.phases["host to device"] + profile.phases["data wait"]
    if not machine.gpus:
        return None
    return Finding(
        code="host-to-device",
        title=f"preparing and copying batches takes {share:.1%} of the step",
        share=share,
        bound_speedup=bound_of_share(share),
        knobs=("loader.pin_memory", "loader.non_blocking", "loader.side_stream"),
        advice="Batches in pinned memory are copied faster.",
    )


def _dense_compute(profile: Profile, machine: Machine) -> Finding | None:
    compute = profile.phases["forward"] + profile.phases["backward"]
    dense = sum(profile.groups.get(group, 0.0) for group in ("convolution", "matmul", "attention"))
    share = compute * min(1.0, dense)
    return Finding(
        code="dense-compute",
        title=f"convolutions, matrix products and attention take {share:.1%} of the step",
        share=share,
        # Reduced precision and layouts change every operator around them too (less memory to move), so the whole
        # forward and backward pass is what could shrink.
        bound_speedup=bound_of_share(compute),
        knobs=(
            "precision.autocast",
            "layout.channels_last",
            "precision.float32_matmul",
            "ipex.optimize",
            "model.sparsity",
        ),
        advice="A shorter floating-point type, channels last for images, and fewer channels are what speeds these up.",
    )


def _framework(profile: Profile, machine: Machine) -> Finding | None:
    compute = profile.phases["forward"] + profile.phases["backward"]
    return Finding(
        code="forward-backward",
        title=f"forward and backward take {compute:.1%} of the step",
        share=compute,
        bound_speedup=bound_of_share(compute),
        knobs=("compile.mode", "compile.backend", "compile.dynamic", "compile.region"),
        advice="torch.compile fuses small operators; it has to repay its compilation.",
    )


def _attention(profile: Profile, machine: Machine) -> Finding | None:
    compute = profile.phases["forward"] + profile.phases["backward"]
    share = compute * min(1.0, profile.groups.get("attention", 0.0))
    return Finding(
        code="attention",
        title=f"scaled dot-product attention takes {share:.1%} of the step",
        share=share,
        bound_speedup=bound_of_share(share),
        knobs=("model.attention",),
        advice="Its kernels differ most on long sequences.",
    )


def _memory(profile: Profile, machine: Machine) -> Finding | None:
    share = min(1.0, profile.groups.get("memory", 0.0)) * (1 - profile.phases["data wait"])
    return Finding(
        code="memory",
        title=f"copying, filling and handing out memory takes {share:.1%} of the step",
        share=share,
        # Page faults and cache misses of fresh memory are spent inside the operators that write it first.
        bound_speedup=bound_of_share(min(0.5, 2 * share)),
        knobs=("memory.allocator", "memory.huge_pages", "memory.keep_gradients", "memory.expandable_segments"),
        advice="An allocator that keeps freed pages, and huge pages, spare the system's work.",
    )


RULES: tuple[Rule, ...] = (_data_wait, _dense_compute, _framework, _optimizer, _copies_to_device, _attention, _memory)


def advise(profile: Profile, machine: Machine) -> list[Finding]:
    """Return what the rules find, the most valuable first."""
    found = [finding for rule in RULES if (finding := rule(profile, machine)) is not None]
    return sorted(found, key=lambda finding: -finding.bound_speedup)
