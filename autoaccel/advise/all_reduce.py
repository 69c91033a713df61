"""How long an all-reduce takes: latency and bandwidth (alpha-beta model), and published figures of links."""

from __future__ import annotations

from autoaccel.errors import BadRequestError
from autoaccel.records.scaling import Cluster, LinkFigures

_NCCL = "latency of a ring step: NVIDIA/nccl at 01afd20, src/graph/tuning.cc"

LINKS = (
    LinkFigures(
        "nvlink3",
        230e9,
        3.4e-6,
        "A100, 600 GB/s both directions together (NVIDIA A100 data sheet); all-reduce in nccl-tests reaches a busbw of "
        "200 (NVIDIA/nccl-tests issue 149) to 235 GB/s, which NCCL takes as the most (src/graph/tuning.cc at 01afd20); "
        f"{_NCCL}",
    ),
    LinkFigures(
        "nvlink4",
        370e9,
        3.4e-6,
        "H100, 900 GB/s both directions together (NVIDIA H100 data sheet); rings reach 370 GB/s busbw "
        f"(NCCL's maintainers, NVIDIA/nccl-tests issue 212); {_NCCL}",
    ),
    LinkFigures("pcie3", 15.75e9, 5.7e-6, f"x16, 8 GT/s with 128b/130b (PCI-SIG), line rate; {_NCCL}"),
    LinkFigures("pcie4", 31.5e9, 5.7e-6, f"x16, 16 GT/s with 128b/130b (PCI-SIG), line rate; {_NCCL}"),
    LinkFigures("pcie5", 63.0e9, 5.7e-6, f"x16, 32 GT/s with 128b/130b (PCI-SIG), line rate; {_NCCL}"),
    LinkFigures("10 GbE", 1.25e9, 9.6e-6, f"IEEE 802.3ae, line rate; {_NCCL}"),
    LinkFigures("25 GbE", 3.125e9, 9.6e-6, f"IEEE 802.3by, line rate; {_NCCL}"),
    LinkFigures("100 GbE", 12.5e9, 9.6e-6, f"IEEE 802.3ba, line rate; {_NCCL}"),
    LinkFigures("HDR", 25e9, 9.6e-6, f"InfiniBand 4x, 200 Gb/s (InfiniBand Trade Association), line rate; {_NCCL}"),
    LinkFigures("NDR", 50e9, 9.6e-6, f"InfiniBand 4x, 400 Gb/s (InfiniBand Trade Association), line rate; {_NCCL}"),
)
"""What all-reduce reaches where that is published, else the line rate of one port in one direction."""


def find_link(name: str, option: str) -> LinkFigures:
    """Return the published figures of a link; case and spaces do not matter.

    Raises:
        BadRequestError: If there are none; the message names `option`.
    """

    def plain(text: str) -> str:
        return text.replace(" ", "").lower()

    for link in LINKS:
        if plain(link.name) == plain(name):
            return link
    raise BadRequestError(f"{option} must be one of {', '.join(link.name for link in LINKS)}, got {name!r}.")


def ring_seconds(count: int, members: int, link: LinkFigures) -> float:
    """Return the time of a ring all-reduce of `count` bytes: 2(N-1)/N bytes / bandwidth + 2(N-1) latency.

    Its N members are ranks within a machine, machines between them.
    No algorithm moves fewer bytes (Patarasuk and Yuan, Journal of Parallel and Distributed Computing 2009).
    """
    steps = 2 * (members - 1)
    return steps / members * count / link.bytes_per_second + steps * link.latency_seconds


def tree_seconds(count: int, members: int, link: LinkFigures) -> float:
    """Return the time of an all-reduce of `count` bytes over two binary trees: few steps, but every byte up and down.

    2 bytes / bandwidth + 2 ceil(log2 N) latency (Sanders, Speck and Träff, Parallel Computing 2009; logarithmic latency
    against the ring's: Thakur, Rabenseifner and Gropp, IJHPCA 2005).
    """
    if members == 1:
        return 0.0
    return 2 * count / link.bytes_per_second + 2 * (members - 1).bit_length() * link.latency_seconds


def all_reduce_seconds(count: int, world_size: int, cluster: Cluster) -> float:
    """Return the time of an all-reduce of `count` bytes, by ring or tree, whichever is faster.

    On several machines: within each, every rank gets the sum of a share (reduce-scatter); the shares are summed up
    between machines, over the link that all ranks of a machine have together; every rank gets all sums (all-gather).
    The first and the last are the halves of a ring all-reduce. The fullest machine counts.
    """
    inside, machines = cluster.on_fullest(world_size), cluster.machines(world_size)
    if machines == 1:
        return min(ring_seconds(count, inside, cluster.within), tree_seconds(count, inside, cluster.within))
    between = min(ring_seconds(count, machines, cluster.between), tree_seconds(count, machines, cluster.between))
    return ring_seconds(count, inside, cluster.within) + between
