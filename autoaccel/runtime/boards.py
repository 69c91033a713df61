"""Write a profile where TensorBoard shows it."""

from __future__ import annotations

from collections.abc import Sequence

from autoaccel.records.profile import Profile
from autoaccel.runtime.steps import Step


def write_board(folder: str, profile: Profile, steps: Sequence[Step]) -> None:
    """Write the untraced step times, the phases and the operators of a profile into TensorBoard's folder.

    The caller has checked that tensorboard is installed.
    """
    from torch.utils.tensorboard import SummaryWriter  # late: tensorboard is an extra

    with SummaryWriter(folder) as writer:
        for number, step in enumerate(steps):
            writer.add_scalar("step/seconds", step.seconds, number)
        for phase, share in profile.phases.items():
            seconds = share * profile.step_seconds
            writer.add_scalar(f"phase/{phase.replace(' ', '_')}_seconds", seconds, 0)
        for name, value in {
            "samples_per_second": profile.samples_per_second,
            "peak_bytes": profile.peak_bytes,
            "tracing_overhead": profile.tracing_overhead,
        }.items():
            if value is not None:
                writer.add_scalar(f"profile/{name}", value, 0)
        rows = [
            f"| {found.name} | {found.group} | {found.share:.1%} | {found.calls_per_step:g} | {found.shapes} |"
            for found in profile.operators
        ]
        table = "\n".join(["| operator | group | share | calls per step | shapes |", "|---|---|---|---|---|", *rows])
        writer.add_text("operators", table, 0)
