"""What a trial writes never reaches the user's files, through whatever it is written, and nothing of it is left."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from autoaccel.records.messages import Failure
from autoaccel.records.workload import Script
from autoaccel.workers.views import views as views_module
from autoaccel.workers.views.landlock import landlock_version
from autoaccel.workers.views.views import View, Views
from autoaccel.workers.worker import Worker
from benchmarks.checks.users_files import scripts
from benchmarks.checks.users_files.scripts import ACTS, PLACES, listing, make_tree, program, without_modes

WITHOUT_LIBRARIES = {name: act for name, act in ACTS.items() if " by " in name}


class Closed:
    """Stands for a worker that has ended."""

    is_closed = True


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scripts, "_make_store", lambda path: path.write_bytes(b"store"))
        yield make_tree(tmp_path_factory.mktemp("lab"), pictures=20)


@pytest.fixture
def views_of(tmp_path: Path) -> Iterator[Callable[[Path], Views]]:
    made: list[Views] = []

    def make(own: Path) -> Views:
        made.append(Views(Script(str(own / "train.py"), "train.py", str(own), ""), (tmp_path,)))
        return made[-1]

    yield make
    for views in made:
        views.close()


@pytest.fixture
def no_overlays(monkeypatch: pytest.MonkeyPatch) -> None:
    if not landlock_version():
        pytest.skip("this kernel has no Landlock, without which links are not guarded")
    monkeypatch.setattr(views_module, "_mountinfo", lambda: "")


def needs_overlays(views: Views) -> None:
    if views.protection.kind != "overlay":
        pytest.skip(f"there are no overlays here: {views.protection.reason}")


def done(view: View, own: Path, code: str) -> subprocess.CompletedProcess[str]:
    folder = Path(f"{view.scratch or ''}{own.resolve()}")
    return subprocess.run(
        [*view.start, sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )


def ended(views: Views, view: View) -> None:
    views.give(cast("Worker", Closed()), view)


def acts() -> list[tuple[str, str]]:
    """Return each act with a place, so that each place is met."""
    return [(PLACES[number % len(PLACES)], act) for number, act in enumerate(WITHOUT_LIBRARIES.values())]


@pytest.mark.parametrize(("place", "act"), acts(), ids=list(WITHOUT_LIBRARIES))
def test_an_overlay_keeps_what_is_written_apart(
    own: Path, views_of: Callable[[Path], Views], place: str, act: str
) -> None:
    root, views = own.parents[1], views_of(own)
    needs_overlays(views)
    before = listing(root)
    view = views.new()
    plain = done(view, own, program(place, act) + "print(os.path.islink('latest'), Path('latest').resolve())")
    assert plain.returncode == 0, plain.stderr
    assert plain.stdout.split() == ["True", str(own / "runs/old")]  # at its own path, as it is
    assert listing(root) == before
    ended(views, view)
    assert {path.parent for path in views.written()} == {Path(os.path.normpath(own / place))}
    again = views.new()  # begins with what is there, not with what the other wrote
    assert done(again, own, f"open({place + 'large.bin'!r}); open({place + 'small.txt'!r})").returncode == 0


@pytest.mark.usefixtures("no_overlays")
@pytest.mark.parametrize(
    ("place", "act"),
    # Each refusal is a start of its own; those of the other acts are refused by the same rules.
    [pytest.param(*act, marks=[pytest.mark.long] if number % 4 else []) for number, act in enumerate(acts())],
    ids=list(WITHOUT_LIBRARIES),
)
def test_what_links_lead_to_is_not_written_to(
    own: Path, views_of: Callable[[Path], Views], place: str, act: str
) -> None:
    root, views = own.parents[1], views_of(own)
    assert views.protection.kind == "links" and views.protection.guarded
    before = listing(root)
    for _ in range(3):  # what was refused gets a private copy, once its path is known
        view = views.new()
        found = done(view, own, program(place, act))
        ended(views, view)
        if found.returncode == 0 or not views.learn(Failure("raised", found.stderr)):
            break
    assert found.returncode == 0, found.stderr
    now = listing(root)
    if "chmod" in act:  # of which Landlock knows nothing
        before, now = without_modes(before), without_modes(now)
        (own / place / "large.bin").chmod(0o644)
    assert now == before


def test_what_was_refused_says_what_to_do(own: Path, views_of: Callable[[Path], Views]) -> None:
    views = views_of(own)
    if not views.protection.guarded:
        pytest.skip("this kernel has no Landlock, without which nothing is refused")
    refused = views.explained(Failure("raised", "PermissionError: [Errno 13] Permission denied: '/new'"))
    assert refused.message.endswith("--in-place lets trials work on your own files)")
    other = Failure("raised", "ValueError: no")
    assert views.explained(other) == other


@pytest.mark.usefixtures("no_overlays")
def test_a_full_folder_is_walked_as_it_is(own: Path, views_of: Callable[[Path], Views]) -> None:
    views = views_of(own)
    count = "print(len(list(Path('pictures').rglob('*.txt'))), sum(len(f) for _, _, f in os.walk('pictures')))"
    walk = f"import os; from pathlib import Path; {count}"
    view = views.new()
    assert (
        done(view, own, walk).stdout
        == subprocess.run([sys.executable, "-c", walk], cwd=own, capture_output=True, text=True, check=True).stdout
    )
    ended(views, view)


@pytest.mark.usefixtures("no_overlays")
def test_unreadable_and_vanishing_files_are_no_error(tmp_path: Path, views_of: Callable[[Path], Views]) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "secret").write_text("x")
    (own / "secret").chmod(0)
    (own / "gone").symlink_to("nowhere")
    os.mkfifo(own / "pipe")
    views = views_of(own)
    view = views.new()
    found = done(view, own, "import os; print(sorted(os.listdir('.')))")
    assert found.stdout.strip() == "['gone', 'pipe', 'secret']", found.stderr
    ended(views, view)


def test_nothing_is_left_when_all_is_closed(own: Path, tmp_path: Path) -> None:
    views = Views(Script(str(own / "train.py"), "train.py", str(own), ""), (tmp_path,))
    view = views.new()
    done(view, own, "import os; os.makedirs('runs/new/deep'); os.chmod('runs/new', 0)")
    assert view.folder.exists()
    ended(views, view)
    views.close()
    assert not view.folder.parent.exists()


def test_folders_of_ours_are_the_same_in_all_views(
    own: Path, tmp_path: Path, views_of: Callable[[Path], Views]
) -> None:
    views = views_of(own)
    view = views.new()
    assert done(view, own, f"open({str(tmp_path / 'log')!r}, 'w').write('x')").returncode == 0
    assert (tmp_path / "log").read_text() == "x"
    ended(views, view)
    assert tmp_path / "log" not in views.written()
