"""Files of every kind, size and depth in the place of each file that a command reads."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.doors import give, give_alone, refused
from tests.hostile.samples import MODEL, SCRIPT, as_json, recipe, write

READERS: dict[str, list[str]] = {
    "file.json": ["show", "file.json"],
    "times.json": ["scale", "times.json", "--predict", "8"],
    "topology.txt": ["hardware", "--topology", "topology.txt"],
    "space.toml": ["tune", "model.py", "--space", "space.toml"],
}


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _link(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def _holds(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def _sparse(size: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with path.open("wb") as file:
            file.truncate(size)

    return make


KINDS: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "a folder": Path.mkdir,
    "a pipe": _fifo,
    "/dev/zero": _link("/dev/zero"),
    "/dev/full": _link("/dev/full"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "empty": _holds(b""),
    "sparse": _sparse(50 << 30),
    "zeros": _holds(bytes(1 << 20)),
    "not UTF-8": _holds(b'"\xff\xfe"'),
    "surrogates": _holds(b'"\xed\xa0\x80"'),
    "nested lists": _holds(b"[" * 50_000),
    "nested objects": _holds(b'{"a":' * 50_000),
    "nested tables": _holds(b"a = " + b"[" * 50_000),
    "long keys": _holds(b"[" + b"a." * 50_000 + b"b]\n"),
    "many digits": _holds(b"title = " + b"1" * 5000),
    "escapes": _holds(b'{"\x1b[2J\x1b]0;owned\x07": 1}'),
    "a name with escapes": _holds(b'{"\\u001b[2J\\u0007": 1}'),
    "a long name": _holds(b'{"' + b"x" * 1_000_000 + b'": 1}'),
}

SAID = dict.fromkeys(("a folder", "a pipe", "/dev/zero", "/dev/full"), "must be a regular file")
SAID |= {"sparse": "must have at most"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", READERS)
def test_a_file_that_is_none_of_its_kind_is_refused(folder: Path, name: str, kind: str) -> None:
    KINDS[kind](folder / name)
    refused(give(READERS[name], folder), name, "" if READERS[name][0] == "show" else SAID.get(kind, ""))


@pytest.mark.parametrize("kind", ["/dev/zero", "a pipe", "sparse", "nested lists"])
def test_as_a_user_runs_it(folder: Path, kind: str) -> None:
    KINDS[kind](folder / "file.json")
    refused(give_alone(READERS["file.json"], folder), "file.json")


SPACES = {
    "knobs of which none is": "\n".join(f'"a{number}.b" = "all"' for number in range(20_000)),
    "a knob as often": f'"threads.intra_op" = [{"1, " * 20_000}]',
    "nested values": f'"threads.intra_op" = [{"[" * 200}{"]" * 200}]',
    "a table": '"threads.intra_op" = { a = 1 }',
    "a date": '"threads.intra_op" = [1979-05-27]',
    "nothing": '"threads.intra_op" = []',
    "a word": '"threads.intra_op" = ["two"]',
    "not a number": '"optimizer.batch_factor" = ["nan"]',
}


@pytest.mark.parametrize("lines", SPACES.values(), ids=SPACES)
def test_a_search_space_that_lists_what_is_no_value(folder: Path, lines: str, context: Any) -> None:
    from autoaccel.errors import BadRequestError
    from autoaccel.space.search_space import load_space

    path = folder / "space.toml"
    path.write_text(f'title = "t"\n[knobs]\n{lines}\n')
    with pytest.raises(BadRequestError) as error:
        load_space(str(path), context)
    assert len(str(error.value)) < 1000


def test_a_list_of_cpus_in_a_search_space_is_not_expanded(folder: Path, context: Any) -> None:
    from autoaccel.space.search_space import load_space

    lists = ["0-999999999999", "9" * 5000, "0-8191," * 5000, "999"]
    path = folder / "space.toml"
    path.write_text(f'title = "t"\n[knobs]\n"threads.affinity" = {json.dumps(lists)}\n')
    assert "threads.affinity" not in load_space(str(path), context).open


CHECKPOINTS: dict[str, Callable[[Path], object]] = {
    name: KINDS[name] for name in ("empty", "a folder", "a pipe", "/dev/zero", "zeros", "sparse")
}


@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_what_is_no_checkpoint_is_refused_before_anything_starts(folder: Path, kind: str) -> None:
    write(folder / "recipe.json", as_json(recipe()))
    CHECKPOINTS[kind](folder / "state.pt")
    refused(give(["run", "recipe.json", "model.py", "--checkpoint", "state.pt"], folder), "state.pt", "must be a")


@pytest.mark.parametrize("kind", ["a folder", "missing", "nested lists", "zeros", "not UTF-8", "sparse"])
def test_a_draft_is_made_of_python_source_alone(folder: Path, kind: str) -> None:
    KINDS[kind](folder / "odd.py")
    refused(give(["init", "odd.py"], folder), "odd.py")


@pytest.mark.parametrize("name", ["x" * 300, "x" * 5000, "a/" * 3000, "train.py/x", "\x1b[2J", "nul\n"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "{}"],
        ["run", "{}", "model.py"],
        ["tune", "{}"],
        ["tune", "train.py", "--stdin", "{}"],
        ["tune", "model.py", "--space", "{}.toml"],
        ["tune", "model.py", "--space", "{}"],
        ["hardware", "--topology", "{}"],
        ["init", "{}"],
        ["scale", "{}", "--predict", "8"],
    ],
    ids=" ".join,
)
def test_a_name_that_no_file_has(folder: Path, arguments: list[str], name: str) -> None:
    refused(give([argument.format(name) for argument in arguments], folder))
