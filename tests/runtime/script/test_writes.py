"""What a script writes elsewhere: paths that are there afterwards, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CODE = """
import os, sys, tempfile
from autoaccel.runtime.script.writes import Writes

here = sys.argv[1]
writes = Writes((os.path.join(here, "own"),))
with tempfile.TemporaryFile(dir=here) as file:
    file.write(b"nothing")
open(os.path.join(here, "kept"), "w").close()
print(writes.outside())
"""


def test_a_temporary_file_without_a_name_is_not_told(tmp_path: Path) -> None:
    """Linux opens it as its folder, which is still there afterwards."""
    done = subprocess.run([sys.executable, "-c", CODE, str(tmp_path)], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == str((str(tmp_path / "kept"),)), done.stderr
