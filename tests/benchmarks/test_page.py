"""The results page is what its rows say, and says which of them are older than the code that they speak of."""

from __future__ import annotations

import re
import subprocess

import pytest

from autoaccel.records.base import read_json
from benchmarks.harness.rows import RESULTS, ROOT, UNKNOWN, Provenance, Row, read_rows
from benchmarks.page.claims import max_share
from benchmarks.page.searches import live, samplers_over_tables, simulation
from benchmarks.page.sections import SECTIONS
from benchmarks.page.write import SAMPLERS_PAGE, CodeThen, read_results, render, take_code, with_samplers


def row(name: str, digest: str = "then", **changes: object) -> Row:
    """Return a row of false_wins."""
    made = Provenance("2026-11-20T00:00:00+00:00", "abcdef0123", False, "Test CPU", 4, "2.13.0", {"autoaccel": digest})
    found = {"comparisons": 30, "false_win_share": 0.0, "outcomes": {"not faster": 30}}
    return Row(name, **({"status": "measured", "reason": "", "made": made, "found": found} | changes))  # type: ignore[arg-type]  # fields of many types


THEN = CodeThen("2026-11-23T00:00:00+00:00", "fedcba9876", False, {"autoaccel": "then"})


def test_the_page_is_written_from_the_committed_rows_alone() -> None:
    """Tables on the page were not those of the data beside it."""
    then = read_json(RESULTS / "code.json", CodeThen, "the code that the page knows")
    assert (RESULTS / "README.md").read_text() == render(read_results(), then), "run: python -m benchmarks.page.write"


def test_the_table_of_samplers_is_written_from_the_committed_rows_alone() -> None:
    """It was copied from a terminal, of replays that nobody kept."""
    text = SAMPLERS_PAGE.read_text("utf-8")
    assert text == with_samplers(text, read_rows("samplers")), "run: python -m benchmarks.page.write"


def test_samplers_are_compared_table_by_table_with_intervals() -> None:
    def horizon(own: bool, **regrets: float) -> dict[str, object]:
        rest = {"searches": 20, "of_single_pass": 0.3, "cpu_seconds": 0.5}
        return {"own": own, "peers": {name: {"mean_regret": regret, **rest} for name, regret in regrets.items()}}

    found = {
        "one": {
            "horizons": {
                "9": horizon(True, autoaccel=0.01, tpe=0.02),
                "50000": horizon(False, autoaccel=0.03, tpe=0.06),
            }
        },
        "two": {
            "horizons": {
                "7": horizon(True, autoaccel=0.11, tpe=0.12),
                "50000": horizon(False, autoaccel=0.13, tpe=0.16),
            }
        },
    }
    ours, theirs = (line for line in samplers_over_tables(found) if line.startswith(("| `autoaccel` |", "| `tpe` |")))
    assert ours.startswith("| `autoaccel` | 80 | 6.0% (0.0% to 69.5%) | 8.0% (0.0% to 71.5%) |  | 30% | 0.5 |")
    assert theirs.startswith("| `tpe` | 80 | 7.0% (0.0% to 70.5%) | 11.0% (0.0% to 74.5%) | +2.0% (+2.0% to +2.0%) |")


def test_every_file_of_rows_is_on_the_page_and_every_row_says_where_it_is_from() -> None:
    """Data lay in the folder that no table showed; rows carried neither commit nor processor nor date."""
    without = {path.stem for path in RESULTS.glob("*.jsonl")} - SECTIONS.keys()
    assert not without, f"give them a section in benchmarks/page/sections.py, then run it: {without}"
    for rows in read_results().values():
        for one in rows:
            assert one.made.date and one.made.commit and one.made.cpu and one.made.torch and one.made.code
            assert (one.status == "measured") == (not one.reason)
            assert UNKNOWN not in (one.made.date, one.made.commit) or one.made.note


def test_a_row_older_than_its_code_is_marked() -> None:
    """The headline was of a version with seven knobs, and nothing said so."""
    page = render({"false_wins": [row("live", "before"), row("replayed")]}, THEN)
    lines = [line for line in page.splitlines() if "2026-11-20" in line]
    assert "older than the code" in next(line for line in lines if line.startswith("| live |"))
    assert "older than the code" not in next(line for line in lines if line.startswith("| replayed |"))
    assert "Of the 2 rows that count, 1 are" in page


def test_failed_and_earlier_rows_stay_on_the_page() -> None:
    """What had failed, or was measured again, was gone."""
    failed = row("live", status="failed", reason="exit status 3", found={})
    page = render({"false_wins": [row("live", "before"), row("live"), failed]}, THEN)
    assert "Earlier rows: 1" in page and "| 30 live, 2026-11-20 |" in page
    assert "Failed: live (2026-11-20, `abcdef0`, Test CPU): exit status 3." in page


def test_what_the_page_knows_of_the_code_covers_every_row() -> None:
    results = read_results()
    assert take_code(results).code.keys() == read_json(RESULTS / "code.json", CodeThen, "code").code.keys()


def test_rows_are_only_ever_added() -> None:
    """Rows were replaced in place: each file begins with all that it held in any commit that is known here.

    Where a checkout lies on the machine that measured is nobody's business, and may be cut from a path in an error.
    """
    checkout = re.compile(r"/[^\s\"'()]*/(?=autoaccel/|benchmarks/)")
    for path in sorted(RESULTS.glob("*.jsonl")):
        name = path.relative_to(ROOT).as_posix()
        kept = set(checkout.sub("", path.read_text()).splitlines())
        for commit in _git("log", "--format=%H", "--", name).split():
            then = checkout.sub("", _git("show", f"{commit}:{name}"))
            missing = set(then.splitlines()) - kept
            assert not missing, f"{name}: rows of {commit} are gone"


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        pytest.skip("there is no git")
    return done.stdout if done.returncode == 0 else ""


def test_regrets_stand_beside_the_tables_resolution_with_intervals() -> None:
    """Means stood without intervals, and regrets below what the table can tell apart."""
    peer = {
        "mean_regret": 0.015,
        "mean_regret_interval": [0.012, 0.019],
        "p90_regret": 0.04,
        "kept_own": 0.0,
        "median_seconds": 118.0,
        "of_single_pass": 0.284,
        "median_seconds_to_close": None,
    }
    horizons = {"210": {"own": True, "resolution": 0.024, "peers": {"autoaccel": peer}}}
    lines = simulation({name: {"horizons": horizons} for name in ("one", "two")})
    assert "| one | 210 | 2.4% | autoaccel | 1.5% (1.2% to 1.9%) | 4.0% | 0% | 118 | 28% | seldom |" in lines
    assert "| autoaccel | 1.5% (1.5% to 1.5%) |  |" in lines


def test_a_mean_of_ratios_leaves_out_what_is_the_same_settings() -> None:
    """A geometric mean counted two processes of the same settings."""
    page = "\n".join(live({row.name: row.found for row in reversed(read_rows("live"))}))
    (line,) = (line for line in page.splitlines() if line.startswith("| small_resnet |"))
    assert "1.86x" in line and "the same settings" in line
    assert "Student's 95 % interval over workloads" in page


def test_none_of_thirty_is_no_proof_of_none() -> None:
    """No false win in thirty comparisons stood as 0.00 %, without what that can still hide."""
    assert max_share(0, 30) == pytest.approx(1 - 0.05 ** (1 / 30))  # the rule of three: about 3 / n
    assert max_share(0, 2000) == pytest.approx(0.0015, abs=1e-4)
    assert 0.10 < max_share(1, 30) < 0.16
