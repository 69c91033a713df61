"""Read what `nvidia-smi topo -m` prints."""

from __future__ import annotations

import itertools
import re
from typing import NoReturn

from autoaccel.errors import BadRequestError
from autoaccel.machine.kernel_files import parse_cpu_list
from autoaccel.records.machine import PCIE_LINKS, Interconnect

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_COLUMNS = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")


def parse_topology(text: str) -> Interconnect:
    """Return what `nvidia-smi topo -m` printed, whatever its age; lines before and after the matrix are skipped.

    Raises:
        BadRequestError: If it is something else.
    """
    lines = _ESCAPES.sub("", text).splitlines()
    # Of the lines that begin with a GPU, the heading alone has no cell for a GPU's link with itself.
    heading = next((line for line in lines if re.match(r"\s*GPU\d", line) and "X" not in line.split()), "")
    gpus = re.findall(r"GPU\d+", heading)
    if not gpus:
        _refuse("no line names the GPUs")
    # Some releases print the names without a gap.
    titles = " ".join(re.sub(r"GPU\d+", " ", heading).split())
    columns = [name for name in _COLUMNS if name in titles]
    adapters = len(titles.partition(columns[0])[0].split()) if columns else len(titles.split())
    rows: dict[str, list[str]] = {}
    for name, *cells in filter(None, map(str.split, lines)):
        if "X" in cells:
            rows.setdefault(name, cells)  # other matrices, as of `nvidia-smi topo -p2p`, may follow
    for name in gpus:
        if len(rows.get(name, ())) < len(gpus) + adapters:
            _refuse(f"the row of {name} is missing or too short")
    links = tuple(tuple(_parse_link(cell) for cell in rows[name][: len(gpus)]) for name in gpus)
    for one, other in itertools.combinations_with_replacement(range(len(gpus)), 2):
        if links[one][other] != links[other][one] or (links[one][other] == "X") != (one == other):
            _refuse(f"{gpus[one]} and {gpus[other]} do not agree on their link")
    # A job that may use no CPU near a GPU is shown no CPUs at all there: what is missing, is missing on the left.
    rests = [rows[name][len(gpus) + adapters :] for name in gpus]
    places = [dict(zip(reversed(columns), reversed(rest), strict=False)) for rest in rests]
    nodes = [_parse_numbers(place.get("NUMA Affinity", "")) for place in places]
    return Interconnect(
        links=links,
        cpus=tuple(_parse_numbers(place.get("CPU Affinity", "")) for place in places),
        numa_nodes=tuple(node[0] if len(node) == 1 else None for node in nodes),
    )


def _parse_link(cell: str) -> str:
    cell = "SYS" if cell == "SOC" else cell  # its name up to driver 375
    if not (cell == "X" or cell in PCIE_LINKS or re.fullmatch(r"NV[1-9]\d?", cell)):
        _refuse(f"{cell[:20]!r} is not a link between GPUs")
    return cell


def _parse_numbers(cell: str) -> tuple[int, ...]:
    try:
        return () if cell == "N/A" else parse_cpu_list(cell)
    except ValueError:
        _refuse(f"{cell[:20]!r} is not a list of CPUs or memory nodes")


def _refuse(reason: str) -> NoReturn:
    raise BadRequestError(
        f"this is not what `nvidia-smi topo -m` prints: {reason}. Write it with: nvidia-smi topo -m > topology.txt"
    )
