"""Forty scripts that write to, and remove, what lies in their working tree and above it, and that tree."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

PLACES = ("", "runs/old/", "pictures/cat/", "../", "../notes/", "../../common/")
"""Where the scripts write, seen from their working folder; one of these folders is full, one is two levels up."""

_PYTHON = {
    "write": "open(LARGE, 'w').write('x')",
    "append": "open(LARGE, 'ab').write(b'x')",
    "truncate": "os.truncate(LARGE, 5)",
    "rename": "os.replace(LARGE, NEW)",
    "remove": "os.remove(SMALL)",
    "chmod": "os.chmod(LARGE, 0o600)",
    "symlink": "os.remove(LARGE); os.symlink('/dev/null', LARGE)",
}
_LIBRARIES = {
    "torch.save": "torch.save(torch.ones(3), LARGE)",
    "numpy.save": "import numpy; numpy.save(open(NEW, 'wb'), numpy.ones(3))",
    "numpy.memmap": "import numpy; numpy.memmap(LARGE, mode='r+', dtype='u1')[:9] = 7",
    "h5py": "import h5py; h5py.File(STORE, 'a').create_dataset('new', data=[1.0])",
}
_SHELL = {
    "write": "echo x > {0}",
    "append": "echo x >> {0}",
    "truncate": "truncate -s 5 {0}",
    "rename": "mv {0} {0}.moved",
    "remove": "rm {0}",
    "chmod": "chmod 600 {0}",
    "symlink": "ln -sf /dev/null {0}",
}
_C = {
    "write": "checked(libc.creat(C_LARGE, 0o644), LARGE)",
    "append": "checked(libc.write(checked(libc.open(C_LARGE, os.O_WRONLY | os.O_APPEND), LARGE), b'x', 1), LARGE)",
    "truncate": "checked(libc.truncate(C_LARGE, ctypes.c_long(5)), LARGE)",
    "rename": "checked(libc.rename(C_LARGE, C_NEW), LARGE)",
    "remove": "checked(libc.unlink(C_LARGE), LARGE)",
    "chmod": "checked(libc.chmod(C_LARGE, 0o600), LARGE)",
    "symlink": "checked(libc.unlink(C_LARGE), LARGE); checked(libc.symlink(b'/dev/null', C_LARGE), LARGE)",
}
_RUN = "subprocess.run({!r}.format(LARGE), shell=True, check=True)"

ACTS = {
    **{f"{name} by Python": act for name, act in _PYTHON.items()},
    **_LIBRARIES,
    **{f"{name} by a program": _RUN.format(command) for name, command in _SHELL.items()},
    **{f"{name} by C": act for name, act in _C.items()},
}
"""What a script does, by its name; LARGE, SMALL, STORE and NEW are files in its place, of which NEW is not there."""

_SETUP = """
import ctypes, hashlib, os, subprocess, sys
from pathlib import Path

PLACE = {place!r}
LARGE, SMALL, STORE, NEW = (PLACE + name for name in ("large.bin", "small.txt", "store.h5", "new.bin"))
C_LARGE, C_NEW = LARGE.encode(), NEW.encode()
libc = ctypes.CDLL(None, use_errno=True)

def checked(result, path):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    return result
"""

_TRAINING = """
import torch
from torch.utils.data import DataLoader, TensorDataset

# All samples that a script finds by walking: those of its folder, and words far above it.
files = [path for path in sorted(Path("pictures").rglob("*.txt")) if path.is_file()]
for folder, _, names in os.walk("../../common"):
    files += [Path(folder, name) for name in sorted(names) if name.endswith(".txt")]
texts = [path.read_bytes() for path in files]
digest = hashlib.sha256(b"|".join(texts)).hexdigest()[:16]
print("samples", len(files), digest, os.path.getsize("sparse.bin"), flush=True)

def act():
    {act}

loader = DataLoader(TensorDataset(torch.tensor([[float(sum(text))] for text in texts]) / 1000), batch_size=64)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
for epoch in range(int(sys.argv[1])):
    for number, (batch,) in enumerate(loader):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        if epoch == 0 and number == 1:
            act()
"""


def scripts() -> dict[str, str]:
    """Return forty scripts by their names; an argument says how many epochs each makes."""
    acts = list(ACTS.items())
    found = {}
    for number in range(40):
        name, act = acts[number % len(acts)]
        place = PLACES[number % len(PLACES)]
        found[f"{name} in {place or './'}"] = source(place, act)
    return found


def source(place: str, act: str) -> str:
    """Return a script that acts in a place while it trains."""
    return _SETUP.format(place=place) + _TRAINING.format(act=act)


def program(place: str, act: str) -> str:
    """Return a program that acts in a place, and does nothing else; not for torch."""
    return _SETUP.format(place=place) + act + "\n"


def make_tree(root: Path, pictures: int = 1_100) -> Path:
    """Make a tree in a new folder, in it so many pictures of each kind; return the working folder, two levels below."""
    own = root / "project" / "code"
    for place in PLACES:
        folder = (own / place).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "large.bin").write_bytes(bytes(range(256)) * (3 << 12))
        (folder / "small.txt").write_text("words")
        _make_store(folder / "store.h5")
    for kind in ("cat", "dog"):
        (own / "pictures" / kind).mkdir(parents=True, exist_ok=True)
        for number in range(pictures):
            (own / "pictures" / kind / f"{number}.txt").write_text(f"{kind} {number}")
    with (own / "sparse.bin").open("wb") as file:
        file.truncate(10 << 30)
    (own / "latest").symlink_to("runs/old")
    return own


def _make_store(path: Path) -> None:
    import h5py  # type: ignore[import-not-found,unused-ignore]  # which this check installs

    with h5py.File(path, "w") as file:
        file.create_dataset("own", data=list(range(400_000)))


def listing(root: Path) -> dict[str, str]:
    """Return type, content and mode of all in a tree, by path."""
    found = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        mode = oct(stat.S_IMODE(status.st_mode))
        if path.is_symlink():
            content = str(path.readlink())
        elif path.is_dir():
            content = "folder"
        elif status.st_blocks * 512 < status.st_size // 2:
            content = f"{status.st_size} bytes, {status.st_blocks} blocks"  # all holes: nothing to read
        else:
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        found[str(path.relative_to(root))] = f"{content} {mode}"
    return found


def without_modes(files: dict[str, str]) -> dict[str, str]:
    """Return a listing that does not tell modes."""
    return {path: text.rpartition(" ")[0] for path, text in files.items()}


def owned_by(root: Path, user: int) -> None:
    """Give a tree to a user."""
    for path in (root, *root.rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)
