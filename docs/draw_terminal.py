"""Draw the README's terminal picture from a real run: python docs/draw_terminal.py MODEL.py PICTURE.svg [FOLDER]

FOLDER is where the run goes; a new one in autoaccel-runs if none is named.
"""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path

from rich.console import Console

from autoaccel.api import autotune
from autoaccel.records.progress import Event, TrialFinished
from autoaccel.report.live import LiveView
from autoaccel.report.terminal import print_recipe

SHOWN_TRIALS = 5  # the picture is taken when this many trials are over


def main(model: str, picture: Path, folder: Path | None = None) -> None:
    """Tune the model; write what the terminal showed during the search, and the recipe below it."""
    console = Console(record=True, force_terminal=True, width=104, height=40, file=io.StringIO(), highlight=False)
    view = LiveView(time.monotonic)
    trials = 0

    def hear(event: Event) -> None:
        nonlocal trials
        view.hear(event)
        trials += isinstance(event, TrialFinished)
        if isinstance(event, TrialFinished) and trials == SHOWN_TRIALS:
            console.print(f"[bold]$[/bold] autoaccel tune {model} --budget 5m\n")
            console.print(view)

    recipe = autotune(model, budget="5m", output=folder, listener=hear)
    print_recipe(console, recipe, Path("autoaccel-runs") / f"{Path(model).stem}-1" / "recipe.json")
    picture.write_text(console.export_svg(title="autoaccel"), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None)
