"""What OpenMP runtimes and allocators do for training on this machine: each tuned for real, and each measured.

    apt install libjemalloc2 libtcmalloc-minimal4 && pip install intel-openmp
    python -m benchmarks.studies.libraries [NAME ...]

For each workload: every setting below against the baseline in fresh pairs of processes, programs of their own; and
`autoaccel tune` with a space of nothing else. Results go to benchmarks/results/libraries.jsonl; forty minutes for each.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from autoaccel.records.settings import Settings, settings_key
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.contenders import contest, machine_of
from benchmarks.harness.rows import ROOT, add_row, runs_folder, to_measure

CODE = ("autoaccel", "benchmarks/studies/libraries.py")
SPACE = "benchmarks/spaces/libraries.toml"
WORKLOADS = {
    "digits_cnn": "examples/digits_cnn.py",
    "char_gpt": "examples/char_gpt.py",
    "wide_mlp": "benchmarks/workloads/wide_mlp.py",
}
PAIRS = 8
INTEL: Settings = {"threads.openmp": "intel"}
CHANGES: tuple[Settings, ...] = (
    {},  # what two equal processes show
    {"memory.allocator": "jemalloc"},
    {"memory.allocator": "tcmalloc"},
    {"memory.keep_freed": True},
    {"memory.huge_pages": True},
    {"memory.allocator": "jemalloc", "memory.huge_pages": True},
    INTEL,
    {**INTEL, "threads.kmp_affinity": "granularity=fine,compact,1,0"},
    {**INTEL, "threads.kmp_blocktime": "0"},
    {**INTEL, "threads.kmp_blocktime": "1"},
    {**INTEL, "threads.kmp_blocktime": "infinite"},
    {**INTEL, "threads.kmp_affinity": "granularity=fine,compact,1,0", "threads.kmp_blocktime": "1",
     "memory.allocator": "jemalloc"},  # torch.backends.xeon.run_cpu's own choice
    {"threads.omp_proc_bind": "close"},
    {"threads.gomp_affinity": True},
    {"threads.omp_wait_policy": "active"},
    {"threads.omp_wait_policy": "passive"},
)  # fmt: skip


def measure(name: str) -> dict[str, Any]:
    """Return what each change does to one workload, and what a search over them comes to."""
    model, folder = WORKLOADS[name], runs_folder("libraries") / name
    found: dict[str, Any] = {}
    with contest(str(ROOT / model)) as held:
        found["machine"] = machine_of(held.context)
        found["changes"] = {}
        for change in CHANGES:
            key = settings_key(change) or "nothing"
            found["changes"][key] = held.compare(change, PAIRS)
            print(name, key, found["changes"][key], flush=True)
    if not (folder / "recipe.json").exists():
        command = [sys.executable, "-m", "autoaccel", "tune", model, "--space", SPACE, "--trainings", "1000"]
        subprocess.run([*command, "--budget", "8m", "--output", str(folder)], cwd=ROOT, check=False)
    recipe = json.loads((folder / "recipe.json").read_text())
    found["tuned"] = {key: recipe[key] for key in ("summary", "settings", "comparison", "search")}
    return found


def main(arguments: Sequence[str]) -> None:
    """Measure these workloads, or all that were not measured with today's code."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(WORKLOADS))
    parsed = parser.parse_args(arguments)
    for name in parsed.names or to_measure("libraries", WORKLOADS):
        add_row("libraries", name, measure(name), code=(*CODE, WORKLOADS[name]))


if __name__ == "__main__":
    main(sys.argv[1:])
