"""Intel's extension, in an environment of its own with the torch that it needs: an example tuned with its knob open.

    python -m benchmarks.checks.ipex

Makes build/check-ipex with torch 2.8 and intel-extension-for-pytorch 2.8 (7 GB), and runs `autoaccel tune` there.
Results go to benchmarks/results/ipex.jsonl.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from autoaccel.space.knobs import is_on
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.rows import ROOT, add_row, provenance

HOME = ROOT / "build" / "check-ipex"
RUN = ROOT / "autoaccel-runs" / "check-ipex"
CODE = ("autoaccel", "benchmarks/checks/ipex.py", "examples/digits_cnn.py")
PACKAGES = ("torch==2.8.0", "intel-extension-for-pytorch==2.8.*", "setuptools")


def main() -> None:
    """Prepare, tune, and write what came of it."""
    make_parser(__doc__).parse_args()
    python = str(HOME / "bin" / "python")
    if not Path(python).exists():
        subprocess.run([sys.executable, "-m", "venv", str(HOME)], check=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, *PACKAGES, "--editable", f"{ROOT}[examples]"], check=True)
    listed = subprocess.run([python, "-m", "autoaccel", "knobs", "--json"], stdout=subprocess.PIPE, check=True)
    knob = next(row for row in json.loads(listed.stdout) if row["name"] == "ipex.optimize")
    shutil.rmtree(RUN, ignore_errors=True)
    tune = [python, "-m", "autoaccel", "tune", "examples/digits_cnn.py", "--space", "benchmarks/spaces/ipex.toml"]
    subprocess.run([*tune, "--budget", "6m", "--trainings", "1000", "--output", str(RUN)], cwd=ROOT, check=False)
    recipe = json.loads((RUN / "recipe.json").read_text())
    trials = [json.loads(line) for line in (RUN / "trials.jsonl").read_text().splitlines()]
    tried = [trial for trial in trials if is_on("ipex.optimize", trial["settings"])]
    shown = [
        {
            "settings": trial["settings"],
            "speedup": (trial.get("comparison") or {}).get("speedup"),
            "learned": trial["outcome"].get("learned", {}).get("ipex.optimize"),
            "failure": trial["outcome"].get("message"),
        }
        for trial in tried
    ]
    found = {key: recipe[key] for key in ("summary", "settings", "comparison", "versions")}
    made = provenance(CODE, torch=recipe["versions"]["torch"])
    add_row("ipex", "all", {"knob": knob, **found, "trials": shown}, made=made)
    print(f"{knob['name']} available: {knob['available']}; {len(tried)} trials with it; {recipe['summary']}")
    if not any(row["learned"] for row in shown):
        sys.exit("no trial trained with the extension")


if __name__ == "__main__":
    main()
