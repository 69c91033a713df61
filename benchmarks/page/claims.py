"""What is claimed to be faster: how often it is not, and how well intervals hold."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.page.searches import t_radius


def max_share(count: int, of: int) -> float:
    """Return the largest share under which so few of so many still come about in one of twenty series.

    The upper end of Clopper and Pearson's one-sided 95 % interval (1934), by bisection.
    """
    low, high = count / of, 1.0
    for _ in range(50):
        share = (low + high) / 2
        chance = math.fsum(math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(count + 1))
        low, high = (share, high) if chance > 0.05 else (low, share)
    return high


def false_wins(found: dict[str, Any]) -> list[str]:
    """Return how often the baseline was called faster than itself."""
    rows = {**found, **_live_together([row for kind, row in found.items() if kind.startswith("live: ")])}
    lines = ["| Comparisons | Called faster | In truth at most (95 %) | Outcomes |", "|---|---|---|---|"]
    for kind, row in rows.items():
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in row["outcomes"].items())
        most = max_share(round(row["false_win_share"] * row["comparisons"]), row["comparisons"])
        lines.append(f"| {row['comparisons']:,} {kind} | {row['false_win_share']:.2%} | {most:.2%} | {outcomes} |")
    return lines


def _live_together(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what rows of several workloads come to together; nothing if there are not several."""
    if len(rows) < 2:
        return {}
    outcomes: Counter[str] = Counter()
    for row in rows:
        outcomes.update(row["outcomes"])
    share = outcomes["proven"] / outcomes.total()
    return {"live, together": {"comparisons": outcomes.total(), "false_win_share": share, "outcomes": dict(outcomes)}}


def scatter(found: dict[str, Any]) -> list[str]:
    """Return what the scatter of pairs was fitted to, and how often intervals that build on it miss."""
    lines = ["| Left out of the fit | Fit of the others | Missed, as recorded | Missed, on a worse machine |"]
    lines.append("|---|---|---|---|")
    for name, row in found.items():
        if "missed" in row:
            fit, missed = row["fit"], row["missed"]["used"]
            words = f"{fit['deviation']:.3f}, {fit['degrees']:g} degrees"
            lines.append(
                f"| {name.partition(': ')[2]} | {words} | {missed['as recorded']:.1%} | {missed['worse']:.1%} |"
            )
    one = found["fit"]
    used = f"{one['used']['deviation']:g} with {one['used']['degrees']:g}"
    return [*lines, "", f"All together: {one['deviation']:.3f} with {one['degrees']:g} degrees; used: {used}."]


def means(found: dict[str, Any]) -> list[str]:
    """Return what proofs said of simulated processes, beside the truth."""
    columns = ["Case", "True ratio of means", "Proven", "Intervals that cover it", "Mean error", "of claims", "Pairs"]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for name, row in found.items():
        errors = [row["mean_error"], row["mean_error_of_claims"]]
        told = ["" if error is None else f"{math.expm1(error):+.1%}" for error in errors]
        unseen = "" if row["seen"] else " (no proof of minutes can see it)"
        lines.append(
            f"| {name}{unseen} | {row['truth']:.2f} | {row['proven']} of {row['proofs']} | {row['covered_share']:.1%} "
            f"| {told[0]} | {told[1]} | {row['mean_pairs']:.1f} |"
        )
    return lines


def replays(found: dict[str, Any]) -> list[str]:
    """Return what simulated trainings kept that were tuned while they ran, and what that cost them."""
    columns = ["Case", "Trainings", "Something kept", "In use at the end", "Time, against plain", "at most"]
    columns += ["Of what could be saved", "Seconds until it is in use", "Claims that cover the truth", "Mean error"]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for name, row in found.items():
        gained = "" if row["gained_share"] is None else f"{row['gained_share']:.2f}"
        until = "" if row["median_seconds_until"] is None else f"{row['median_seconds_until']:.0f}"
        covered = "" if row["covered_share"] is None else f"{row['covered_share']:.1%} of {row['claims']}"
        error = "" if row["mean_error"] is None else f"{math.expm1(row['mean_error']):+.1%}"
        lines.append(
            f"| {name} | {row['trainings']:,} | {row['kept_share']:.2%} | {row['in_use_at_end_share']:.2%} "
            f"| {row['lost_share']:+.2%} | {row['most_lost_share']:+.1%} | {gained} | {until} | {covered} | {error} |"
        )
    return lines


def harms(found: dict[str, Any]) -> list[str]:
    """Return how many planted harms were given up, and what they have cost."""
    columns = ["Kind", "Planted", "In use at the end", "Time, against plain: median", "at most", "at least"]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for name, row in found.items():
        lost = row["lost_shares"]
        lines.append(
            f"| {name} | {len(lost)} | {row['kept']} | {statistics.median(lost):+.1%} | {max(lost):+.1%} "
            f"| {min(lost):+.1%} |"
        )
    return lines


def live_neighbour(found: dict[str, Any]) -> list[str]:
    """Return how fast trainings are that are tuned while they run beside a neighbour."""
    lines = ["| Training | Pairs of runs | Times as fast as in plain Python | The last one said |", "|---|---|---|---|"]
    for name, row in found.items():
        low, high = row["interval"]
        lines.append(
            f"| {name} | {len(row['seconds'])} | {row['times_as_fast']:.3f} ({low:.3f} to {high:.3f}) "
            f"| {row['said'][-1]} |"
        )
    return lines


def independence(found: dict[str, Any]) -> list[str]:
    """Return what pairs scatter by with a fresh baseline each and with one that is kept, and what that one adds."""
    columns = ["Workload", "Step", "Scatter, fresh baselines", "Scatter, one kept", "What that one adds to all"]
    columns += ["Three pairs are wrong by, fresh", "kept", "Seconds of a pair, fresh", "kept"]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for name, row in found.items():
        wrong, seconds = row["error_of_three"], row["seconds_of_pair"]
        lines.append(
            f"| {name} | {row['step_seconds']:.3g} s | {row['fresh_deviation']:.3f} | {row['kept_deviation']:.3f} "
            f"| {row['kept_luck']:.3f} | {wrong['fresh']:.3f} | {wrong['kept']:.3f} "
            f"| {seconds['fresh']:.1f} | {seconds['kept']:.1f} |"
        )
    return [*lines, "", "Standard deviations of the logarithm of the speed-up."]


def claims(found: dict[str, Any]) -> list[str]:
    """Return claims beside what was measured later."""
    lines = ["| Recipe | Claimed | Measured again | Hours between | Error | Covered |", "|---|---|---|---|---|---|"]
    for name, row in found.items():
        one, other = row["claimed"], row["measured"]
        lines.append(
            f"| {name} | {one['speedup']:.2f} ({one['low']:.2f} to {one['high']:.2f}) | {other['speedup']:.2f} "
            f"| {row['hours_between']:.1f} | {row['error']:+.1%} | {'yes' if row['covered'] else 'no'} |"
        )
    errors = [abs(row["error"]) for row in found.values()]
    covered = statistics.fmean(row["covered"] for row in found.values())
    told = f"Median error {statistics.median(errors):.1%}; {covered:.0%} of the intervals cover."
    return [*lines, "", told, *_signed(found)]


def _signed(found: Mapping[str, Any]) -> list[str]:
    """Return by how much claims are too high or too low on average, those about unseen trainings apart and all."""
    unseen = [row for name, row in found.items() if name.startswith("unseen: ")]
    others = [row for row in found.values() if row not in unseen]
    kinds = {"unseen trainings": unseen, "small trainings": others}
    if unseen and others:
        kinds["trainings of both kinds"] = [*found.values()]
    lines = []
    for kind, rows in kinds.items():
        if len(rows) >= 2:
            errors = [math.log1p(row["error"]) for row in rows]
            mean, radius = statistics.fmean(errors), t_radius(errors)
            ends = f"{math.expm1(mean - radius):+.1%} to {math.expm1(mean + radius):+.1%}"
            lines.append(f"Mean error over {len(rows)} {kind}: {math.expm1(mean):+.1%} (95 %: {ends}).")
    return ["", *lines] if lines else []


def verifications(found: dict[str, Any]) -> list[str]:
    """Return what `verify` said of true claims and of planted false ones."""
    lines = [
        "| Claims | Number | Hold | Do not hold | Inconclusive | Pairs, median | Seconds, median |",
        f"|{'---|' * 7}",
    ]
    for kind in ("true", "false"):
        rows = [row for row in found.values() if row["claim"] == kind]
        if rows:
            counts = [
                sum(row["verdict"] == name for row in rows) for name in ("holds", "does not hold", "inconclusive")
            ]
            pairs = statistics.median((row["measured"] or {"process_pairs": 0})["process_pairs"] for row in rows)
            seconds = statistics.median(row["seconds"] for row in rows)
            told = " | ".join(map(str, counts))
            lines.append(f"| {kind} | {len(rows)} | {told} | {pairs:.0f} | {seconds:.0f} |")
    return lines
