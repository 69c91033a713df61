"""OpenMP runtimes and memory allocators that a process could be started with.

Names come from a closed list: a recipe is data from strangers and may only name what this computer finds itself.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from autoaccel.records.machine import Library

# Stems of file names, best first. Both tcmallocs allocate alike; the full one adds profilers that nothing here needs.
OPENMP_STEMS = {"libgomp": ("libgomp",), "libiomp5": ("libiomp5",), "libomp": ("libomp",)}
ALLOCATOR_STEMS = {
    "jemalloc": ("libjemalloc",),
    "mimalloc": ("libmimalloc",),
    "tcmalloc": ("libtcmalloc_minimal", "libtcmalloc"),
}

# libgomp.so.1, libjemalloc.2.dylib, and libgomp-a34b3233.so.1 as wheels rename what they bundle.
_FILE_NAME = re.compile(r"(?P<stem>\w+?)(-[0-9a-f]{8,})?(\.so(\.\d+)*|(\.\d+)*\.dylib)")


def library_folders(root: Path) -> tuple[Path, ...]:
    """Return the folders to look in, in order: torch's own, LD_LIBRARY_PATH, the Python environment, the system's.

    Torch's own come first: what it bundles is what it runs with unless told otherwise. `root` replaces the system's.
    """
    named = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    multiarch = f"{platform.machine()}-linux-gnu"  # Debian's
    system = (
        "usr/local/lib",
        f"usr/local/lib/{multiarch}",
        f"lib/{multiarch}",
        f"usr/lib/{multiarch}",
        "lib64",
        "usr/lib64",
        "lib",
        "usr/lib",
        "opt/homebrew/lib",
        "opt/homebrew/opt/libomp/lib",
    )
    environment = Path(sys.prefix) / "lib"
    folders = (*_torch_folders(), *map(Path, named), environment, *(root / folder for folder in system))
    # /lib is often a link to /usr/lib: look once.
    return tuple(dict.fromkeys(folder.resolve() for folder in folders))


def find_libraries(stems: Mapping[str, Sequence[str]], folders: Iterable[Path]) -> tuple[Library, ...]:
    """Return what is there of the named libraries, each once, by name; the first folder that has one counts.

    Paths have no links left, so they are also what /proc/<pid>/maps shows once the library is loaded.
    """
    found: dict[str, Library] = {}
    for folder in folders:
        files = _files_by_stem(folder)
        for name, candidates in stems.items():
            loadable = (path for stem in candidates for path in files.get(stem, ()) if _is_loadable(path))
            path = next(loadable, None)
            if path is not None:
                found.setdefault(name, Library(name, str(path.resolve())))
    return tuple(found[name] for name in sorted(found))


def _torch_folders() -> tuple[Path, ...]:
    # Finding the spec of a top-level package does not import it.
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return ()
    package = Path(spec.submodule_search_locations[0])
    # Wheels for ARM keep what they bundle beside the package.
    return (package / "lib", package.with_name("torch.libs"))


def _files_by_stem(folder: Path) -> dict[str, list[Path]]:
    try:
        paths = sorted(folder.iterdir())
    except OSError:
        # Most of the folders exist on some systems only.
        return {}
    files: dict[str, list[Path]] = {}
    for path in paths:
        if match := _FILE_NAME.fullmatch(path.name):
            files.setdefault(match["stem"], []).append(path)
    return files


def _is_loadable(path: Path) -> bool:
    """Return whether a process like this one could load the file: not a 32-bit twin, a linker script, a dead link."""
    own, other = _elf_identity(Path(sys.executable)), _elf_identity(path)
    # Where programs are no ELF files (macOS), any file will have to do.
    return own == other if own else path.is_file()


def _elf_identity(path: Path) -> bytes | None:
    """Return class, byte order and machine of an ELF file, or None if it is none."""
    try:
        with path.open("rb") as file:
            header = file.read(20)
    except OSError:
        return None
    return header[4:6] + header[18:20] if header.startswith(b"\x7fELF") else None
