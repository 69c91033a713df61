"""Strings of strangers come out as visible text, wherever they are shown; nothing in them is markup."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from autoaccel.records.machine import Machine
from autoaccel.records.messages import Failure
from autoaccel.records.progress import Note, RunStarted, StageStarted, TrialFinished
from autoaccel.records.recipe import OpenProof
from autoaccel.records.trial import Trial
from autoaccel.report.console import PlainConsole
from autoaccel.report.html import render_report
from autoaccel.report.live import LiveView
from autoaccel.report.terminal import print_recipe, watch
from autoaccel.text import one_line, printable, visible_json
from tests.report import samples as reported

from . import samples
from .doors import give, refused

ESCAPES = {
    "clears the screen": "\x1b[2J",
    "sets the title": "\x1b]0;owned\x07",
    "types into the terminal": "\x1b[21t\x1bP$q\x1b\\",
    "C1 control sequence": "\x9b31m",
    "deletes": "abc\x7f\x08\x08",
    "carriage return": "safe\rfake",
    "reverses the writing": "\u202egnp.exe\u202c",
    "isolates": "\u2067abc\u2069",
    "other line ends": "a\u2028autoaccel: fake\u2029b\x0bc\x0cd\x85e",
    "nothing": "\x00",
    "half a character": "\ud83d",
    "no width": "a\u200bb\ufeffc",
}
PAYLOADS = {**ESCAPES, "markup": "[red]a[/red][link=https://x.example]b[/link] :skull:"}


def is_plain(text: str) -> bool:
    """Whether a terminal obeys nothing of a text."""
    return all(char in "\n\t" or char.isprintable() for char in text)


@pytest.mark.parametrize("hostile", PAYLOADS.values(), ids=PAYLOADS)
def test_text_is_visible(hostile: str) -> None:
    assert is_plain(printable(hostile)) and "\n" not in one_line(f"a\n{hostile}")
    assert printable("as it was: é 你 [b]\n\t") == "as it was: é 你 [b]\n\t"
    data = json.dumps({hostile: [hostile]}, ensure_ascii=False)
    assert is_plain(visible_json(data)) and json.loads(visible_json(data)) == {hostile: [hostile]}


def _setting(recipe: Any, text: str) -> None:
    recipe["settings"]["loader.context"] = text


def _name(recipe: Any, text: str) -> None:
    recipe["settings"][f"loader.{text}"] = 1


def _workload(recipe: Any, text: str) -> None:
    recipe["workload"]["path"] = f"/none/{text}.py"


def _arguments(recipe: Any, text: str) -> None:
    recipe["workload"]["arguments"] = ["--name", text]


def _contribution(recipe: Any, text: str) -> None:
    recipe["contributions"] = [
        {"setting": text, "value": text, "speedup": 1.1, "low": 1.0, "high": 1.2, "measured": True}
    ]
    recipe["interaction"] = {"settings": [text, text], "factor": 1.1, "low": 1.0, "high": 1.2}


def _search(recipe: Any, text: str) -> None:
    recipe["search"] |= {"ended": text, "space": text, "sampler": text, "study": text}
    recipe["open_proof"] = {"settings": {"loader.context": text}, "seconds": 60.0}


def _machine(recipe: Any, text: str) -> None:
    recipe["machine"]["cpu"]["model"] = text
    recipe["versions"] = {text: text}


PLACES: dict[str, Callable[[Any, str], None]] = {
    "summary": lambda recipe, text: recipe.update(summary=text),
    "value": _setting,
    "name": _name,
    "workload": _workload,
    "arguments": _arguments,
    "contribution": _contribution,
    "search": _search,
    "machine": _machine,
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_what_a_recipe_says_is_shown_as_text(place: Callable[[Any, str], None], tmp_path: Path) -> None:
    for number, hostile in enumerate(PAYLOADS.values()):
        found = samples.as_json(samples.recipe())
        place(found, hostile)
        shown = give(["show", samples.write(tmp_path / f"recipe-{number}.json", found)], tmp_path)
        assert shown.code == 0 or refused(shown)


@pytest.mark.parametrize("hostile", ESCAPES.values(), ids=ESCAPES)
def test_names_that_are_typed_are_shown_as_text(hostile: str, tmp_path: Path) -> None:
    """A name may have been completed by the shell, from what somebody else has called a file."""
    name = f"no{hostile}file".replace("\0", "").replace("\ud83d", "")
    assert refused(give(["show", name], tmp_path), "cannot be read")
    assert give(["verify", name, name], tmp_path).code == 2
    assert give(["show", "recipe.json", name], tmp_path).code == 2  # argparse's own error
    assert give(["tune", f"{name}.py", "--set", name, "--", name], tmp_path).code == 2
    refused(give(["show", f"a\nautoaccel: fine\n{name}"], tmp_path))


def test_markup_and_line_ends_of_others_are_no_markup_and_no_lines_of_ours(tmp_path: Path) -> None:
    found = samples.as_json(samples.recipe())
    _search(found, "[red]never[/red]\nautoaccel: fake")
    found["summary"] = "[link=https://x.example]1.5x[/link] :skull:"
    shown = give(["show", samples.write(tmp_path / "recipe.json", found)], tmp_path)
    if shown.code == 0:
        assert "[link=https://x.example]1.5x[/link] :skull:" in shown.stdout.replace("\n", "")
        assert "[red]never[/red]" in shown.stdout
        assert not any(line.startswith("autoaccel: fake") for line in shown.stdout.splitlines())
    else:
        refused(shown)


@pytest.mark.parametrize("hostile", PAYLOADS.values(), ids=PAYLOADS)
def test_a_terminal_gets_no_escapes_but_rich_s_own(hostile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The live picture, notes and the end of a run, in colour: what is left without rich's styles is visible."""
    plain, coloured = (drawn(text, monkeypatch) for text in ("harmless", hostile))
    assert controls(coloured) <= controls(plain)


def controls(text: str) -> set[str]:
    """Return the kinds of control sequences in a text, and the characters in it that cannot be seen."""
    sequence = re.compile(r"\x1b(\[[0-9;?]*)?(.)", re.DOTALL)
    kinds = {f"ESC {(found[1] or '')[:1]} {found[2]}" for found in sequence.finditer(text)}
    return kinds | {char for char in text if not char.isprintable()}


def drawn(text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what a terminal gets of a run in which every string is this one."""
    stream = io.StringIO()
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": "300"}.items():
        monkeypatch.setenv(name, value)
    console = PlainConsole()
    console.file = stream
    settings = {**reported.BASELINE, "loader.context": text}
    with watch(console) as hear:
        hear(RunStarted(f"/none/{text}", text, 60.0))
        hear(StageStarted("search", text))
        hear(Note(text))
        hear(TrialFinished(Trial(1, settings, Failure("raised", text), 1.0, host=text), None))
    console.print(text, LiveView())
    left = OpenProof(settings, 60.0)
    recipe = msgspec.structs.replace(reported.RECIPE, summary=text, settings=settings, open_proof=left)
    print_recipe(console, recipe, Path(text.replace("\0", "")))
    return stream.getvalue()


HOSTILE_HTML = "</script><script>alert(1)</script><!--\x1b[2J\u202e\x00'\"><img src=x onerror=alert(1)>"


def test_a_report_holds_no_element_and_no_control_character_of_others(machine: Machine) -> None:
    text = HOSTILE_HTML
    settings = {**reported.RECIPE.settings, text: text}
    trial = Trial(1, settings, Failure("raised", text, text, text), 1.0, host=text)
    recipe = msgspec.structs.replace(
        reported.RECIPE,
        summary=text,
        settings=settings,
        versions={text: text},
        machine=msgspec.structs.replace(machine, python=text, cpu=msgspec.structs.replace(machine.cpu, model=text)),
    )
    found = render_report(recipe, reported.DIAGNOSIS, [trial])
    ours = render_report(reported.RECIPE, reported.DIAGNOSIS, reported.TRIALS)
    assert found.count("<script") == ours.count("<script") and found.count("</script") == ours.count("</script")
    assert is_plain(found) and "<img" not in found and "<!--" not in found
    assert is_plain(recipe._repr_html_()) and "<script" not in recipe._repr_html_()
