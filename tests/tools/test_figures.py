"""The figures of the code: which names mean two things, what a reader of `tune()` meets, what asks for what."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LABEL = "class names defined in more than one module"


def figures_of(root: Path) -> list[tuple[str, str]]:
    """Return what the tool prints of a checkout: labels, and what it has found."""
    return list(runpy.run_path(str(ROOT / "tools" / "figures.py"))["figures"](root))


@pytest.fixture(scope="module")
def figures_here() -> list[tuple[str, str]]:
    """This checkout's, which take seconds."""
    return figures_of(ROOT)


def shared_names(told: list[tuple[str, str]]) -> list[str]:
    """Return what the tool prints of the names that a checkout defines more than once: how many, then each."""
    start = [label for label, _ in told].index(LABEL)
    rest = [label for label, _ in told[start + 1 :]]
    end = next((number for number, label in enumerate(rest) if label), len(rest))
    return [value for _, value in told[start : start + 1 + end]]


def test_each_class_name_means_one_thing(figures_here: list[tuple[str, str]]) -> None:
    assert shared_names(figures_here) == ["0"]


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ("class Limits: ...\n", ["1", "Limits: first.py, inner/second.py"]),
        ("class Outer:\n    class Limits: ...\n", ["1", "Limits: first.py, inner/second.py"]),
        ("class Other: ...\n", ["0"]),
        ("from first import Limits\n", ["0"]),
    ],
)
def test_a_name_of_two_modules_is_told_with_its_modules(tmp_path: Path, second: str, told: list[str]) -> None:
    package = tmp_path / "autoaccel"
    (package / "inner").mkdir(parents=True)
    (package / "first.py").write_text("def ask(limit):\n    return limit\n\n\nclass Limits: ...\n")
    (package / "inner" / "second.py").write_text(second)
    assert shared_names(figures_of(tmp_path)) == told


def test_what_a_reader_meets_is_counted(tmp_path: Path) -> None:
    session = tmp_path / "autoaccel" / "session"
    session.mkdir(parents=True)
    (session / "tuning.py").write_text(
        "from autoaccel.bench import Bench, hidden, unread\nfrom autoaccel.inner import Deep\n"
        "def tune(request):\n    if request.script is None:\n        return search(Bench(request))\n"
        "def search(bench):\n    hidden = bench.best(Deep)\n    return hidden.unread\n"
        "def elsewhere():\n    return unread()\n"
    )
    (tmp_path / "autoaccel" / "bench.py").write_text(
        "LIMIT, MOST = 1, 2\nALSO: int = 3\n"
        "class Bench:\n    room: 'int'\n    def __init__(self, ranks: Held):\n        self.ranks = ranks\n"
        "class Held:\n    bench: Bench\n"
        "def unread(x):\n    return isinstance(x, Script)\n"
        "def hidden(x):\n    return x.script or not x.script and x\n"
    )
    port = "def seen_of(script):\n    return script or 1\n"
    for path in ("records/seen.py", "workers/processes.py", "runtime/script/any.py"):
        (tmp_path / "autoaccel" / path).parent.mkdir(parents=True)
        (tmp_path / "autoaccel" / path).write_text(port)
    (tmp_path / "autoaccel" / "inner").mkdir()
    (tmp_path / "autoaccel" / "inner" / "__init__.py").write_text("from autoaccel.inner.deep import Deep\n")
    (tmp_path / "autoaccel" / "inner" / "deep.py").write_text("class Deep:\n    ...\n")
    told = dict(figures_of(tmp_path))
    assert told["names of ours from tune() downwards"] == "3"  # search, Bench and Deep, but not a variable's name
    assert told["classes"] == "3" and told["constants of modules"] == "3"
    assert told["is it a script, outside of the port"] == "4 times in 2 modules"
    assert told["modules that name ranks elsewhere"] == "1"
    assert told["two classes that hold each other"] == "1"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def share(rank): ...", True),
        ("size = job.ranks", True),
        ("LAST_RANK = 3", True),
        ("class RankPlan: ...", True),
        ("class LaunchedRank: ...", True),
        ("ask(ranks=2)", True),
        ("ranked = ranking(Ranked)", False),
        ("from autoaccel.runtime.ranks import leads\nleads()", False),
    ],
)
def test_what_names_ranks_is_known_by_its_words(text: str, names: bool) -> None:
    assert runpy.run_path(str(ROOT / "tools" / "figures.py"))["names_ranks"](ast.parse(text)) == names


def test_ranks_are_named_where_they_are_started_declared_and_written_alone(figures_here: list[tuple[str, str]]) -> None:
    assert int(dict(figures_here)["modules that name ranks elsewhere"]) <= 10


def test_nothing_but_the_port_asks_whether_a_training_is_a_script(figures_here: list[tuple[str, str]]) -> None:
    assert dict(figures_here)["is it a script, outside of the port"] == "0 times in 0 modules"
