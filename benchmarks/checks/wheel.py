"""The wheel, installed in an environment of its own: does it tune, in a folder whose name has spaces?

    python -m benchmarks.checks.wheel

Makes build/check-wheel. Adds no row; exits with the tune's exit code.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.harness.command_line import make_parser

ROOT = Path(__file__).parents[2]
HOME = ROOT / "build" / "check-wheel"
FOLDER = HOME / "an empty folder"


def main() -> int:
    """Build, install and tune; return the tune's exit code."""
    make_parser(__doc__).parse_args()
    shutil.rmtree(HOME, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", str(HOME)], cwd=ROOT, check=True)
    subprocess.run([sys.executable, "-m", "venv", str(HOME / "venv")], check=True)
    programs, (wheel,) = HOME / "venv" / "bin", HOME.glob("*.whl")
    install = [str(programs / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    install += ["--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([*install, str(wheel), "scikit-learn", "pillow"], check=True)
    shutil.copy(ROOT / "examples" / "digits_cnn.py", FOLDER / "model.py")
    return subprocess.run([str(programs / "autoaccel"), "tune", "model.py", "--budget", "4m"], cwd=FOLDER).returncode


if __name__ == "__main__":
    sys.exit(main())
