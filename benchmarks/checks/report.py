"""Reports opened in a real browser, as those who get them do: on a desk and on a telephone, light and dark, on paper.

    python -m benchmarks.checks.report [RUN ...]

Makes build/check-report with Playwright, and drives the Chromium that this machine has (apt install chromium). Opened
are the tests' sample reports, one of them written by people who mean harm, and the report.html of each run that is
named. A report fails if it raises a script error, asks for anything outside of itself, scrolls sideways at 390 pixels,
has text that leaves its paragraph, draws a plot of no size, or does not sort by the heading that is clicked. Pictures
go to build/check-report/pictures, results to benchmarks/results/report_page.jsonl.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.command_line import make_parser

ROOT = Path(__file__).parents[2]
HOME = ROOT / "build" / "check-report"
PAGES, PICTURES = HOME / "pages", HOME / "pictures"
CODE = ("autoaccel/report", "benchmarks/checks/report.py")
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
PAPER = {"width": 794, "height": 1123}  # A4 at 96 pixels per inch
OVERHANGING = """
[...document.querySelectorAll("p, li, dd, dt, h1, h2, h3")]
    .filter(one => one.clientWidth && one.scrollWidth > one.clientWidth + 1).map(one => one.textContent.trim())
"""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def prepare() -> str:
    """Make the environment, and return its Python."""
    python = str(HOME / "venv" / "bin" / "python")
    if not Path(python).exists():
        subprocess.run([sys.executable, "-m", "venv", str(HOME / "venv")], check=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "playwright"], check=True)
    return python


def write_pages(runs: list[str]) -> list[Path]:
    """Write the reports to be opened, and return their files."""
    import msgspec

    from autoaccel.records.recipe import Interaction
    from autoaccel.report.html import render_report
    from tests.report import samples

    hostile = "\"><img src=x onerror=alert(1)><script>document.title='taken'</script>" + "x" * 200
    changed = {hostile: hostile, **samples.RECIPE.settings}
    worst = msgspec.structs.replace(
        samples.RECIPE,
        summary=hostile,
        settings=changed,
        versions={hostile: hostile},
        workload=msgspec.structs.replace(samples.RECIPE.workload, path=f"/tmp/{hostile}.py"),
        contributions=(
            msgspec.structs.replace(samples.RECIPE.contributions[0], setting=hostile, value=hostile),
            *samples.RECIPE.contributions,
        ),
        interaction=Interaction((hostile, "precision.autocast"), 1.2, 1.1, 1.3),
    )
    trials = [msgspec.structs.replace(trial, settings={**trial.settings, hostile: hostile}) for trial in samples.TRIALS]
    PAGES.mkdir(parents=True, exist_ok=True)
    closed = msgspec.structs.replace(samples.SPACE, closed={hostile: hostile})
    pages = {
        "sample": render_report(samples.RECIPE, samples.DIAGNOSIS, samples.TRIALS, samples.SPACE, samples.REQUEST),
        "hostile": render_report(worst, samples.DIAGNOSIS, trials, closed, samples.REQUEST),
        "nothing-faster": render_report(
            samples.NOTHING_FASTER, samples.DIAGNOSIS, samples.TRIALS, None, samples.REQUEST
        ),
    }
    for run in runs:
        pages[f"run-{Path(run).name}"] = (Path(run) / "report.html").read_text(encoding="utf-8")
    for name, page in pages.items():
        (PAGES / f"{name}.html").write_text(page, encoding="utf-8")
    return [PAGES / f"{name}.html" for name in pages]


def inside(files: list[str], browser_path: str) -> None:
    """Run in the environment: open each page in every way, and print what was seen."""
    from playwright.sync_api import sync_playwright

    found: dict[str, Any] = {}
    PICTURES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        for file in map(Path, files):
            seen: dict[str, Any] = {"errors": [], "requests": [], "sideways_pixels": {}}
            for size, viewport in (("desk", DESK), ("phone", PHONE)):
                for scheme in ("light", "dark"):
                    context = browser.new_context(viewport=viewport, color_scheme=scheme, offline=True)
                    page = context.new_page()
                    page.on("pageerror", lambda error, seen=seen: seen["errors"].append(str(error)))
                    page.on(
                        "console", lambda said, seen=seen: said.type == "error" and seen["errors"].append(said.text)
                    )
                    page.on("dialog", lambda dialog, seen=seen: (seen["errors"].append("a dialog"), dialog.dismiss()))
                    page.on("request", lambda request, seen=seen: seen["requests"].append(request.url))
                    page.goto(file.as_uri())
                    page.screenshot(path=str(PICTURES / f"{file.stem}-{size}-{scheme}.png"), full_page=True)
                    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
                    seen["sideways_pixels"][f"{size} {scheme}"] = max(0, wide)
                    seen.setdefault("overhanging", []).extend(page.evaluate(OVERHANGING))
                    if (size, scheme) == ("desk", "light"):
                        seen |= on_the_desk(page)
                        page.pdf(path=str(PICTURES / f"{file.stem}.pdf"))
                        page.emulate_media(media="print")
                        page.set_viewport_size(PAPER)
                        page.screenshot(path=str(PICTURES / f"{file.stem}-paper.png"), full_page=True)
                        wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
                        seen["sideways_pixels"]["paper"] = max(0, wide)
                        page.emulate_media(media="screen")
                    seen.setdefault("background", {})[scheme] = page.evaluate(
                        "getComputedStyle(document.body).backgroundColor"
                    )
                    context.close()
            seen["requests"] = sorted({url for url in seen["requests"] if url != file.as_uri()})
            found[file.stem] = seen
        print(json.dumps({"browser": f"Chromium {browser.version}", "pages": found}))
        browser.close()


def on_the_desk(page: Any) -> dict[str, Any]:
    """Return what a page shows of its plots and tables, after each heading was clicked."""
    plots = page.evaluate(
        "[...document.querySelectorAll('svg')].map(svg => ({width: svg.getBoundingClientRect().width, "
        "height: svg.getBoundingClientRect().height, "
        "marks: [...svg.querySelectorAll('circle, .mark')].filter(e => e.getBoundingClientRect().width > 0).length}))"
    )
    sorted_columns = {}
    for number, table in enumerate(page.query_selector_all("table.sortable"), start=1):
        for column, button in enumerate(table.query_selector_all("th button")):
            ways = []
            for _ in range(2):
                button.click()
                ways.append(is_sorted(table, column))
            sorted_columns[f"table {number} column {column + 1}"] = all(ways)
    titles = page.evaluate("[...document.querySelectorAll('h2')].map(heading => heading.textContent)")
    return {"plots": plots, "sorted": sorted_columns, "headings": titles, "title": page.title()}


def is_sorted(table: Any, column: int) -> bool:
    """Whether the rows are in the order that the heading of this column says it shows; those without a value last."""
    values, direction, numeric = table.evaluate(
        "(table, column) => [[...table.tBodies[0].rows].map(row => row.cells[column].dataset.value ?? "
        "row.cells[column].textContent.trim()), table.tHead.rows[0].cells[column].getAttribute('aria-sort'), "
        "table.tHead.rows[0].cells[column].classList.contains('number')]",
        column,
    )
    filled = [value for value in values if value != ""]
    if values != filled + [""] * (len(values) - len(filled)):
        return False
    if not numeric:  # the browser's own order of words is not Python's
        order = table.evaluate("(table, words) => [...words].sort((a, b) => a.localeCompare(b))", filled)
        return bool(filled == (order if direction == "ascending" else order[::-1]))
    numbers = list(map(float, filled))
    return numbers == sorted(numbers, reverse=direction == "descending")


def problems(found: dict[str, Any]) -> list[str]:
    """Return what is wrong with the pages, one line each."""
    wrong = []
    for name, seen in found["pages"].items():
        wrong += [f"{name}: script error: {error}" for error in seen["errors"]]
        wrong += [f"{name}: asks for {url}" for url in seen["requests"]]
        wrong += [f"{name}: scrolls sideways, {where}, by {n} px" for where, n in seen["sideways_pixels"].items() if n]
        wrong += [f"{name}: leaves its paragraph: {text}" for text in seen["overhanging"]]
        wrong += [f"{name}: a plot has no size" for plot in seen["plots"] if not (plot["width"] and plot["height"])]
        wrong += [f"{name}: a plot has no marks" for plot in seen["plots"] if not plot["marks"]]
        wrong += [f"{name}: {column} does not sort" for column, right in seen["sorted"].items() if not right]
        wrong += [f"{name}: dark is light"] if len(set(seen["background"].values())) < 2 else []
        wrong += [f"{name}: its title is {seen['title']}"] if seen["title"] == "taken" else []
    return wrong


def main(arguments: Sequence[str]) -> None:
    """Write the pages, open them in the environment's browser, and keep what was seen."""
    parser = make_parser(__doc__)
    parser.add_argument("runs", nargs="*", metavar="RUN", help="folders of runs whose reports are opened as well")
    runs = parser.parse_args(arguments).runs
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        sys.exit("There is no browser: apt install chromium")
    files = [str(file) for file in write_pages(runs)]
    command = [prepare(), "-m", "benchmarks.checks.report", "inside", browser, *files]
    found = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout)
    wrong = problems(found)
    from benchmarks.harness.rows import add_row  # not above: the environment of its own has no need of it

    add_row("report_page", "all", found | {"wrong": wrong}, code=CODE)
    print("\n".join(wrong) or f"{len(files)} reports are as they should be; pictures in {PICTURES}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["inside"]:
        inside(sys.argv[3:], sys.argv[2])
    else:
        main(sys.argv[1:])
