"""What commands share: exit codes, options, and how they print."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from autoaccel.errors import BadRequestError
from autoaccel.text import say, visible_json

if TYPE_CHECKING:
    from rich.console import Console

    from autoaccel.commands.use import RecipeUse
    from autoaccel.records.workload import Workload

# A text, for argparse takes no type arguments when it runs.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

EXIT_FASTER = 0  # tune: a recipe was proven; verify: the claim holds; else: done
EXIT_NOT_FASTER = 1  # tune: nothing faster was found; verify: the claim does not hold, or it is not clear


def add_model(parser: argparse.ArgumentParser, or_script: bool = False) -> None:
    """Declare the user's file and its arguments.

    Args:
        parser: Of the command.
        or_script: Whether the file may be a script, which defines no build().
    """
    what = "Python file that defines build(), or the function ENTRY"
    if or_script:
        what += "; any other Python file or program is run as a script"
    parser.add_argument("model", metavar="MODEL.py[:ENTRY]", help=what)
    parser.add_argument(
        "arguments", nargs="*", default=[], metavar="-- ARGUMENT", help="arguments that the file finds in sys.argv[1:]"
    )
    if or_script:
        parser.add_argument("--script", action="store_true", help="run the file as a script even if it defines build()")
        parser.add_argument("-m", dest="module", metavar="MODULE", action=_InPlaceOfFile,
                            help="run a module as a script, as `python -m` does")  # fmt: skip
        parser.add_argument("--stdin", metavar="FILE", help="file that a script reads as its standard input")


class _InPlaceOfFile(argparse.Action):
    """The file is not required beside this option.

    It cannot be declared as optional: argparse would take it as missing wherever an option stands before it.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Take in the name of the module."""
        setattr(namespace, self.dest, values)
        for action in parser._actions:
            action.required = action.required and action.dest != "model"


def add_recipe(parser: argparse.ArgumentParser) -> None:
    """Declare the recipe."""
    parser.add_argument("recipe", metavar="RECIPE", help="recipe.json of a run")
    parser.add_argument(
        "--accept-other-machine", action="store_true", help="use the recipe even if it was made on another machine"
    )


def add_script_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare which of a script's arguments a recipe may set."""
    parser.add_argument(
        "--arg",
        action="append",
        default=[],
        dest="named",
        metavar="NAME",
        help="argument of a script that the recipe may set; repeatable. Without it, the recipe sets none",
    )


def use_of(parsed: argparse.Namespace, here: bool = True) -> RecipeUse:
    """Return the recipe that the command line names, and the training that it is used for.

    Args:
        parsed: The command line.
        here: Whether the recipe is to take effect on this machine.

    Raises:
        BadRequestError: If one of them is none, or the recipe sets an argument that the command line does not name.
    """
    from autoaccel.commands.use import RecipeUse, with_named_arguments
    from autoaccel.runs.recipes import open_recipe, open_recipe_here

    path, workload = Path(parsed.recipe), workload_of(parsed)
    recipe = open_recipe_here(path) if here else open_recipe(path)
    warn_if_changed(recipe.workload.sha256, workload)
    use = RecipeUse(recipe, path, workload, parsed.accept_other_machine)
    return with_named_arguments(use, parsed.named, lambda line: say(f"autoaccel: {line}", to_stderr=True))


def workload_of(parsed: argparse.Namespace) -> Workload:
    """Return the training that the command line names.

    Raises:
        BadRequestError: If it is a script, and the command has no use for one.
    """
    from autoaccel.runs.workloads import find_module, find_script, find_workload, with_stdin

    module, stdin = getattr(parsed, "module", None), getattr(parsed, "stdin", None)
    if (module is None) == (parsed.model is None):
        raise BadRequestError("name either a Python file or -m MODULE.")
    if module is not None:
        return with_stdin(find_module(module, parsed.arguments), stdin)
    find = find_script if getattr(parsed, "script", False) else find_workload
    workload = with_stdin(find(parsed.model, parsed.arguments), stdin)
    if not hasattr(parsed, "script"):
        workload.must_be_function(
            f"{parsed.model}: must define a function build(). `autoaccel {parsed.command}` cannot use a script; tune, "
            "advise, run and verify can."
        )
    return workload


def training_of(parsed: argparse.Namespace) -> list[str]:
    """Return the arguments that name the training, as they were typed."""
    module, as_script = getattr(parsed, "module", None), getattr(parsed, "script", False)
    named = ["-m", module] if module else [*(["--script"] if as_script else []), parsed.model]
    stdin = ["--stdin", parsed.stdin] if getattr(parsed, "stdin", None) else []
    return [*stdin, *named, *(["--", *parsed.arguments] if parsed.arguments else [])]


def make_console(to_stderr: bool = False) -> Console:
    """Return where people read: stdout, or stderr beside JSON."""
    from autoaccel.report.console import PlainConsole

    return PlainConsole(to_stderr)


def print_json(record: object) -> None:
    """Print a record as JSON."""
    import msgspec

    print(visible_json(msgspec.json.format(msgspec.json.encode(record), indent=2).decode()))


def warn_if_changed(sha256: str, workload: Workload) -> None:
    """Say so where the file is not the one that a recipe was made for."""
    if sha256 != workload.sha256:
        name = Path(workload.path).name
        say(f"autoaccel: {name} is not the file that the recipe was made for, so its claims may not hold.", True)
