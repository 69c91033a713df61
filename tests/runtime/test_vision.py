from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import importlib.util
from autoaccel.runtime.vision import watch_for_torchvision

watch_for_torchvision()
watch_for_torchvision()
assert importlib.util.find_spec("torchvision")  # as transformers asks whether it is there
import torchvision.transforms
assert torchvision.transforms.loaded
"""

TORCHVISION = {
    "__init__.py": "from torchvision import extension, registrations\n",
    "extension.py": "",  # where the compiled operators would have been declared
    "registrations.py": """
import torch

@torch.library.register_fake("torchvision::nms")
def meta_nms(dets, scores, iou_threshold):
    return dets.new_empty(0, dtype=torch.long)

@torch.library.register_fake("torchvision::qnms")
def meta_qnms(dets, scores, iou_threshold):
    return dets.new_empty(0, dtype=torch.long)
""",
    "transforms.py": "loaded = True\n",
}
"""What torchvision 0.28 does when it is imported beside another build of torch, as far as that fails."""


def run_beside(torchvision: dict[str, str], folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own that finds these files as the package torchvision."""
    package = folder / "torchvision"
    package.mkdir()
    for name, source in torchvision.items():
        (package / name).write_text(source)
    found = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": found}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)


def test_torchvision_can_be_imported_by_others_after_they_have_looked_for_it(tmp_path: Path) -> None:
    """Models of transformers failed to import: asking whether torchvision is there used up its repair."""
    done = run_beside(TORCHVISION, tmp_path, PROGRAM)
    assert done.returncode == 0, done.stderr


def test_another_fault_of_torchvision_is_told_as_it_is(tmp_path: Path) -> None:
    done = run_beside({"__init__.py": "raise RuntimeError('not ours')"}, tmp_path, PROGRAM)
    assert done.stderr.endswith("RuntimeError: not ours\n")
