"""What to change in a script by hand, so that it does by itself what a recipe does to it."""

from __future__ import annotations

import glob
import re
import shutil
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import msgspec

from autoaccel.commands.source_edits import (
    Edit,
    Source,
    first_line_edit,
    keyword_edit,
    line_after_edit,
    model_name,
    wrapping_edits,
)
from autoaccel.commands.trainer_switches import switches_of
from autoaccel.commands.use import RecipeUse
from autoaccel.errors import BadRequestError
from autoaccel.machine.detect import detect_machine
from autoaccel.records.by_hand import ByHand, ChangedFile, Explanation, Unplaced
from autoaccel.records.files import MAX_SOURCE_BYTES, read_text
from autoaccel.records.seen import ScriptFacts
from autoaccel.records.settings import Value, changed, format_value
from autoaccel.records.workload import Script
from autoaccel.space.knobs import KNOBS, Knob, KnobContext, find_knob
from autoaccel.space.knobs.arguments import PREFIX, arguments_with
from autoaccel.space.knobs.threads import CPUS_VARIABLE
from autoaccel.text import shell_word
from autoaccel.workers.shares import context_on

_DEVICE = re.compile(r"(cpu|cuda|mps|xpu)(:[0-9]{1,3})?")
_WORD = re.compile(r"[A-Za-z0-9_.,=+-]+")  # "granularity=fine,compact,1,0"; nothing that ends a string, or calls
_PLACE = re.compile(r"(?P<name>[^/\0]+\.py):(?P<line>[0-9]{1,7})")


def explain(use: RecipeUse) -> Explanation:
    """Return what to change in a script by hand; the script is read, not run.

    What is printed of it will be pasted. So nothing that a recipe says becomes code but words that a knob could have,
    and libraries and processors are those of this machine.

    Raises:
        BadRequestError: If the recipe is for no script, or a value is no word.
    """
    refusal = f"{use.file}: made for a file whose build() returns a Training, not for a script."
    recipe, script, seen = use.recipe, use.workload.must_be_script(refusal), use.recipe.seen.must_be_script(refusal)
    better = changed(recipe.settings, recipe.baseline.settings)
    context = _context_here(use)
    variables: dict[str, str] = {}
    prefix: tuple[str, ...] = ()
    lines, impossible = list[Unplaced](), list[str]()
    for name, value in better.items():
        if name.startswith(PREFIX):
            continue
        _check_is_word(find_knob(name, str(use.file)), value, context, use.file)
        shown, by_hand = f"{name}={format_value(value)}", _by_hand(name, value, context)
        found = dict(KNOBS[name].environment(value, context)) if not KNOBS[name].is_off(value) else {}
        if cpus := found.pop(CPUS_VARIABLE, ""):
            prefix = ("taskset", "-c", cpus)
        variables |= found
        if by_hand is not None:
            lines.append(Unplaced(shown, by_hand))
        elif not found and not cpus:
            impossible.append(shown)
    arguments = arguments_with(script.arguments, {name: better[name] for name in better if name.startswith(PREFIX)})
    own = (*_program(script), *script.arguments)
    command = (*(f"{name}={text}" for name, text in variables.items()), *prefix, *_program(script), *arguments)
    # What a launcher starts lies where it was started.
    path = Path(script.folder, "train.py") if script.is_launcher else Path(script.path)
    files, unplaced = _changes(path, seen, lines)
    told = {setting for line in unplaced for setting in line.setting.split(", ")}
    also = tuple(line for line in lines if line.by_hand.also and line.setting not in told)
    source = _read(path, {}) if unplaced else None
    switches = switches_of(source.tree, better) if source else {}
    unplaced = tuple(_with_switch(line, switches) for line in unplaced)
    return Explanation(command, command != own, files, also, unplaced, tuple(impossible))


def _with_switch(line: Unplaced, switches: Mapping[str, str]) -> Unplaced:
    """Return a line with what a trainer is told instead, if it has switches for all that the line does."""
    found = [switches.get(setting.partition("=")[0], "") for setting in line.setting.split(", ")]
    return line._replace(switch="; ".join(found)) if all(found) else line


def _context_here(use: RecipeUse) -> KnobContext:
    """Return this machine with the device that the recipe names, of which torch is not asked.

    Raises:
        BadRequestError: If it names none.
    """
    torch = use.recipe.machine.torch
    for device in (use.recipe.device, torch.device if torch is not None else ""):
        if device and not _DEVICE.fullmatch(device):
            raise BadRequestError(f"{use.file}: device must be such as cpu or cuda:0, got {shell_word(device)}.")
    return context_on(msgspec.structs.replace(detect_machine(), torch=torch), use.recipe.device)


def _check_is_word(knob: Knob, value: Value, context: KnobContext, recipe: Path) -> None:
    """Refuse a value that could be anything but a number, a switch or a word, of the kinds that its knob has."""
    kinds = {type(one) for one in (knob.default(context), *knob.values(context))}
    is_plain = (isinstance(value, str) and _WORD.fullmatch(value)) or isinstance(value, (int, float))
    if type(value) not in kinds or not is_plain:
        raise BadRequestError(f"{recipe}: {knob.name} cannot be {shell_word(format_value(value))}.")


def _program(script: Script) -> tuple[str, ...]:
    """Return what a person types to start a script: of a program that the shell finds its name."""
    if script.module:
        return "python", "-m", script.module
    program = Path(script.program)
    if program.suffix == ".py":
        return "python", script.program
    found = shutil.which(program.name)
    is_found = found is not None and Path(found).resolve() == program.resolve()
    return (program.name if is_found or script.is_launcher else script.program,)


def _by_hand(name: str, value: Value, context: KnobContext) -> ByHand | None:
    knob = KNOBS[name]
    return knob.by_hand(value, context.device) if knob.by_hand is not None else None


def _changes(
    path: Path, seen: ScriptFacts, lines: list[Unplaced]
) -> tuple[tuple[ChangedFile, ...], tuple[Unplaced, ...]]:
    """Return the files with the lines at the places that were seen, and the lines that have no place there."""
    edits: dict[Path, list[Edit]] = defaultdict(list)
    sources: dict[Path, Source] = {}
    unplaced = list[Unplaced]()
    for line in _joined(lines):
        found = _edits_for(path, seen, line.by_hand.place, line.by_hand.code, sources)
        if not found:
            unplaced.append(line)
        for file, edit in found:
            edits[file].append(edit)
    files = []
    for file, of_file in edits.items():
        after = sources[file].edited(of_file)
        if after is not None:
            files.append(ChangedFile(file.name, sources[file].data.decode(), after))
    broken = {file.name for file in edits} - {file.name for file in files}
    return tuple(files), tuple(_joined(lines)) if broken else tuple(unplaced)


def _joined(lines: list[Unplaced]) -> list[Unplaced]:
    """Return the lines with all that torch.compile is told in one call, and all that a call is within in one block."""
    found = []
    for place, form in (("compile", "{{model}} = torch.compile({{model}}, {code})"), ("forward", "{code}")):
        of_place = [line for line in lines if line.by_hand.place == place]
        lines = [line for line in lines if line.by_hand.place != place]
        if of_place:
            code = form.format(code=", ".join(line.by_hand.code for line in of_place))
            also = "; ".join(filter(None, (line.by_hand.also for line in of_place)))
            first = of_place[0].by_hand
            found.append(Unplaced(", ".join(line.setting for line in of_place), ByHand(first.place, code, also)))
    return lines + found


def _edits_for(
    path: Path, seen: ScriptFacts, place: str, code: str, sources: dict[Path, Source]
) -> list[tuple[Path, Edit]]:
    """Return the edits that put code at a kind of place; none if some such place was not found."""
    found: list[tuple[Path, Edit | None]] = []
    if place == "start":
        source = _read(path, sources)
        found = [(path, first_line_edit(source, code))] if source else []
    elif place in ("loader", "optimizer"):
        places = (
            [(loader.where, "DataLoader") for loader in seen.loaders if loader.feeds]
            if place == "loader"
            else [(one.where, one.kind) for one in seen.optimizers]
        )
        for where, kind in places:
            file, number = _located(path, where)
            source = _read(file, sources)
            found.append((file, keyword_edit(source, number, kind, code) if source else None))
    elif place in ("model", "compile"):
        for model in seen.models:
            file, number = _located(path, model.where)
            source = _read(file, sources)
            name = model_name(source, number, model.kind, model.held_as) if source else ""
            text = code.replace("{model}", name)
            found.append((file, line_after_edit(source, number, text) if source and name else None))
    else:
        found = _around_calls(path, seen, code, sources)
    edits = [(file, edit) for file, edit in found if edit is not None]
    return edits if len(edits) == len(found) else []


def _around_calls(
    path: Path, seen: ScriptFacts, code: str, sources: dict[Path, Source]
) -> list[tuple[Path, Edit | None]]:
    """Return the edits that put the calls of models in training into a `with` block."""
    names = set()
    files = {path}
    for model in seen.models:
        file, number = _located(path, model.where)
        source = _read(file, sources)
        names.add(model_name(source, number, model.kind, model.held_as) if source else "")
        files.add(file)
    found: list[tuple[Path, Edit | None]] = []
    for file in sorted(files):
        source = _read(file, sources)
        found += [(file, edit) for edit in wrapping_edits(source, sorted(names - {""}), code)] if source else []
    return found


def _located(path: Path, where: str) -> tuple[Path, int]:
    """Return the file and the line of a place such as `train.py:31`, in the script's own folder or close below it."""
    place = _PLACE.fullmatch(where)
    if place is None:
        return path, 0
    name = place["name"]
    candidates = [path] if name == path.name else []
    for pattern in ("", "*/", "*/*/"):
        candidates += sorted(path.parent.glob(pattern + glob.escape(name)))
    return (candidates[0] if candidates else path), int(place["line"])


def _read(file: Path, sources: dict[Path, Source]) -> Source | None:
    if file not in sources:
        try:
            sources[file] = Source(read_text(file, "a script", MAX_SOURCE_BYTES))
        except (BadRequestError, SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    return sources[file]
