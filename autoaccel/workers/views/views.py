"""Views: each trial of a script sees the user's files as they are, and what it writes to them goes with it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from autoaccel.errors import BadRequestError
from autoaccel.records.messages import Failure
from autoaccel.records.protection import Protection
from autoaccel.records.workload import Script
from autoaccel.runtime.script.private_copies import in_scratch
from autoaccel.workers.temporary import TemporaryFolder, remove_tree
from autoaccel.workers.views.covering import SYSTEM, Cover, cover, cover_own, is_within, mounts_of
from autoaccel.workers.views.entering import REFUSED
from autoaccel.workers.views.landlock import landlock_version
from autoaccel.workers.views.links import changed, mirror
from autoaccel.workers.worker import Worker

_HOME = str(Path(__file__).parents[3])
_ENTER = f"import sys; sys.path.insert(0, {_HOME!r}); from autoaccel.workers.views.entering import main; main()"
_TRY_SECONDS = 10.0
_WORDS = re.compile(r"[^\s'\"]+")
_DENIED = re.compile(r"permission denied|read-only file system|cannot be opened", re.IGNORECASE)


class View(NamedTuple):
    """One trial's view of the files."""

    start: tuple[str, ...]  # what a program is started with, before its own name, so that it has this view
    scratch: Path | None  # stands for "/": it works in the copy of its working folder there; None: in its own
    folder: Path  # that keeps what is written; all of it goes with the trial


class Views:
    """Gives each worker a view; closing removes what was written to all of them."""

    def __init__(self, script: Script, kept: tuple[Path, ...]) -> None:
        """Find out what this computer allows, by trying.

        Args:
            script: What is trained.
            kept: Folders of ours, which all trials share.
        """
        self._own = Path(script.folder).resolve()
        self._needed = [str(self._own), os.path.realpath(script.path)]
        self._kept = [str(path.resolve()) for path in kept]
        self._stores = _new_stores(str(self._own))
        self._count = 0
        self._used: list[tuple[Worker, View]] = []
        self._private: frozenset[Path] = frozenset()
        self._written: set[Path] = set()
        self._cover: Cover | None = None
        self._as_user = False
        self.protection = self._try_overlay()

    def new(self) -> View:
        """Return a view that nobody has written to."""
        self._remove(closed_only=True)
        self._count += 1
        if self.protection.kind == "overlay":
            return self._overlay()
        into = self._stores[0].path / str(self._count)
        mirror(self._own, into, self._private)
        return View(self._program(writable=[str(into), *self._open_places()]), into, into)

    def give(self, worker: Worker, view: View) -> None:
        """The view is this worker's; what was written to it is removed some time after the worker was closed."""
        self._used.append((worker, view))

    def learn(self, failure: Failure) -> bool:
        """Return whether a failure names files of the user's that it was refused to write to: the next has copies."""
        if self.protection.kind == "overlay":
            return False
        lines = f"{failure.message}\n{failure.log_tail}".splitlines()
        known = self._private
        for name in _WORDS.findall("\n".join(filter(_DENIED.search, lines))):
            path = Path(os.path.normpath(self._own / name.rstrip(".,:;")))
            while not path.exists() and path != path.parent:  # what it was to make
                path = path.parent
            if path not in (self._own, *self._own.parents):
                self._private |= {path}
        return self._private != known

    def explained(self, failure: Failure) -> Failure:
        """Return a failure that says what to do if the trial was refused to write to a file."""
        if not self.protection.guarded or not _DENIED.search(f"{failure.message}\n{failure.log_tail}"):
            return failure
        hint = "in a trial the kernel refuses to let it write there; --in-place lets trials work on your own files"
        return msgspec.structs.replace(failure, message=f"{failure.message} ({hint})")

    def written(self) -> list[Path]:
        """Return what trials that have ended have written to or removed, sorted; of a new folder nothing within it."""
        self._remove(closed_only=True)
        return sorted(path for path in self._written if not any(above in self._written for above in path.parents))

    def folders(self) -> list[Path]:
        """Return what keeps what trials write; what closed workers have written is removed."""
        self._remove(closed_only=True)
        return [store.path for store in self._stores]

    def close(self) -> None:
        """Remove all that was written."""
        self._remove(closed_only=False)
        for store in self._stores:
            store.close()

    def _try_overlay(self) -> Protection:
        mounts = mounts_of(_mountinfo())
        reason = "this system has no overlays"
        if mounts:
            stores = [str(store.path) for store in self._stores]
            for self._as_user in (False, True):
                self._cover = cover(mounts, stores, self._as_user)
                if self._as_user and os.geteuid() != 0:  # to root's, the owners of all files are known
                    self._cover = cover_own(self._cover, self._needed, os.geteuid(), stores)
                found = self._try_once()
                if isinstance(found, dict):
                    return Protection("overlay", "/" if _has_landlock() else "", uncovered=found)
                reason = found
        return Protection("links", str(self._tree) if _has_landlock() else "", reason)

    @property
    def _tree(self) -> Path:
        """The topmost folder that the script's folder lies in."""
        return Path(self._own.anchor, *self._own.parts[1:2])

    def _try_once(self) -> dict[str, str] | str:
        """Return what an overlay does not cover here, or why there can be none."""
        assert self._cover is not None
        if not all(is_within(path, self._cover.stores) for path in self._needed):
            return "the folder has other file systems within, and this user may not cover it"
        view = self._overlay(tell=True)
        mark = self._own / f".autoaccel-{os.getpid()}"
        try:
            # Removed folders that are made anew need such an attribute.
            os.setxattr(view.folder, "user.autoaccel" if self._as_user else "trusted.autoaccel", b"")
            program = [*view.start, sys.executable, "-I", "-S", "-c", f"open({str(mark)!r}, 'x').close()"]
            tried = subprocess.run(
                program, cwd=self._own, capture_output=True, text=True, timeout=_TRY_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        finally:
            self._forget(view)
        if mark.exists():
            mark.unlink()
            return "what is written there is not kept apart"
        if tried.returncode != 0:
            lines = tried.stderr.strip().splitlines() or [f"exit code {tried.returncode}"]
            return lines[-1].rpartition("here: ")[2] if tried.returncode == REFUSED else lines[-1]
        found: dict[str, str] = json.loads(tried.stdout)
        return found

    def _overlay(self, tell: bool = False) -> View:
        assert self._cover is not None
        folder = self._stores[0].path / str(self._count)
        stores: dict[str, str] = {}
        for number, (covered, store) in enumerate(self._cover.stores.items()):
            within = Path(store, str(self._count), str(number))
            within.mkdir(parents=True)
            stores[covered] = str(within)
        program = self._program(
            tell=tell,
            stores=stores,
            needed=[covered for covered in stores if any(is_within(path, [covered]) for path in self._needed)],
            kept=[*self._cover.kept, *self._kept],
            as_user=self._as_user,
            writable=list(SYSTEM),
        )
        return View(program, None, folder)

    def _program(self, **plan: Any) -> tuple[str, ...]:
        whole = {"tell": False, "stores": {}, "needed": [], "kept": [], "as_user": False, "guard": True, **plan}
        return (sys.executable, "-I", "-S", "-c", _ENTER, json.dumps(whole))

    def _open_places(self) -> list[str]:
        """Return where a trial that works in a copy may write: outside of the tree in which the user works.

        Libraries keep what they download or compile in the hidden folders of a home.
        """
        tree = self._tree
        places = [*SYSTEM, *self._kept, *(str(path) for path in tree.parent.iterdir() if path != tree)]
        home = Path.home()
        if home.is_relative_to(tree):
            with contextlib.suppress(OSError):
                hidden = [path for path in home.iterdir() if path.name.startswith(".") and path.is_dir()]
                places += [str(path) for path in hidden if not self._own.is_relative_to(path)]
        return places

    def _remove(self, closed_only: bool) -> None:
        for worker, view in list(self._used):
            if worker.is_closed or not closed_only:
                self._written.update(self._written_to(view))
                self._used.remove((worker, view))
                self._forget(view)

    def _forget(self, view: View) -> None:
        for store in self._stores:
            remove_tree(store.path / view.folder.name)

    def _written_to(self, view: View) -> Iterator[Path]:
        if view.scratch is not None:
            yield from changed(self._own, Path(in_scratch(str(view.scratch), str(self._own))))
            return
        assert self._cover is not None
        for number, (covered, store) in enumerate(self._cover.stores.items()):
            yield from _written_in(Path(store, view.folder.name, str(number), "written"), Path(covered))


def _written_in(written: Path, covered: Path) -> Iterator[Path]:
    """Yield the paths in a covered folder that an overlay holds; of a new folder nothing within it."""
    pending = [(written, covered)]
    while pending:
        folder, own = pending.pop()
        for entry in _entries(folder):
            path = own / entry.name
            if entry.name == "__pycache__":
                continue
            if entry.is_dir(follow_symlinks=False) and path.is_dir():
                pending.append((Path(entry.path), path))
            else:
                yield path


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        return list(found)
    return []


def _has_landlock() -> bool:
    return sys.platform == "linux" and landlock_version() > 0


def _mountinfo() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    return ""  # no Linux, or one without /proc


def _new_stores(own: str) -> list[TemporaryFolder]:
    """Return new folders that can keep what trials write, of which none lies above the other.

    Large files may be written, so /var/tmp comes before /tmp, which may be memory.
    """
    places = [os.environ.get("TMPDIR", ""), "/var/tmp", "/tmp"]
    stores: list[TemporaryFolder] = []
    for place in dict.fromkeys(os.path.realpath(place) for place in places if place):
        others = [str(store.path.parent) for store in stores]
        nested = is_within(place, [own, *others]) or any(is_within(other, [place]) for other in others)
        if len(others) < 2 and not nested:
            with contextlib.suppress(BadRequestError):  # nothing can be written there
                stores.append(TemporaryFolder(Path(place)))
    return stores or [TemporaryFolder()]
