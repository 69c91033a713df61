"""A draft of build() for a script: its own lines, in the form that a Training has. The script is read, not run."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from pathlib import Path

from autoaccel.commands.training_loop import Arguments, called, loop_parts
from autoaccel.errors import BadRequestError
from autoaccel.records.files import parse_source

_HEAD = '''"""A draft of build(), made of {name}. Complete what is marked TODO, then: autoaccel tune {output}"""

{imports}
from autoaccel import {ours}


def build() -> Training:
'''
_TODO = "# TODO: "


def draft_build(path: Path, output: str) -> str:
    """Return the text of a file with a build() that holds what could be read of a script.

    Args:
        path: Of the script.
        output: How the file will be called, for its first line.

    Raises:
        BadRequestError: If the script is no Python, or makes no optimizer that could be recognised.
    """
    try:
        tree = parse_source(path, "a script")
    except SyntaxError as error:
        raise BadRequestError(f"{path}: cannot be read as Python: {error}.") from error
    optimizer = next((node for node in _assignments(tree) if _parameters_of(node.value)), None)
    if optimizer is None:
        raise BadRequestError(
            f"{path}: must make an optimizer, as in optimizer = torch.optim.Adam(model.parameters()), and none is seen."
        )
    model = _parameters_of(optimizer.value)
    loop = loop_parts(tree, path.name, model, ast.unparse(optimizer.targets[0]))
    loaders = [node for node in _assignments(tree) if called(node.value) == "DataLoader"]
    models = [node for node in _assignments(tree) if ast.unparse(node.targets[0]) == model]
    copied = sorted([*models[:1], *loaders], key=lambda node: node.lineno)
    names = [ast.unparse(node.targets[0]) for node in loaders]
    arguments = _arguments(tree, model, optimizer.value, names, loop.accumulates) | loop.arguments
    body = [line for node in copied for line in (f"# {path.name}:{node.lineno}", ast.unparse(node))]
    written = ast.parse("\n".join([*body, *(code for code, _ in arguments.values())]))
    if missing := _undefined(written, tree):
        body.insert(0, f"{_TODO}{', '.join(missing)} must be made first, as {path.name} does.")
    body += [_TODO + sentence for sentence in loop.todo]
    body.append("return Training(")
    for name, (code, todo) in arguments.items():
        body.append(f"    {name}={code},{f'  {_TODO}{todo}' if todo else ''}")
    body.append(")")
    ours = "Clip, Training" if "clip" in arguments else "Training"
    head = _HEAD.format(name=path.name, output=output, imports="\n".join(_imports(path, tree)), ours=ours)
    return head + "\n".join(f"    {line}" for text in body for line in text.splitlines()) + "\n"


def todo_lines(draft: str) -> list[tuple[int, str]]:
    """Return what is left to do in a draft, each with the number of its line."""
    lines = enumerate(draft.splitlines(), start=1)
    return [(number, line.rpartition(_TODO)[2]) for number, line in lines if _TODO in line]


def _arguments(tree: ast.Module, model: str, optimizer: ast.expr, loaders: list[str], may_divide: bool) -> Arguments:
    """Return the arguments of a Training, each with what is left to do."""
    assert isinstance(optimizer, ast.Call)
    rest = [*map(ast.unparse, optimizer.args[1:]), *map(ast.unparse, optimizer.keywords)]
    made = f"lambda params: {ast.unparse(optimizer.func)}({', '.join(['params', *rest])})"
    loss, epochs = _loss(tree, model, may_divide), _epochs(tree)
    train = next((name for name in loaders if "train" in name), loaders[0] if loaders else "")
    other = next((name for name in loaders if name != train), "")
    return {
        "model": (model, ""),
        "train_data": (f"lambda: {train or None}", "" if train else "the loader of the training, or its dataset"),
        "eval_data": (f"lambda: {other or None}", "" if other else "the loader of the evaluation, or its dataset"),
        "optimizer": (made, ""),
        **({"loss": (loss, "")} if loss else {"step": ("None", "a function of model and batch that returns the loss")}),
        "evaluate": ('"accuracy"', "the metric: this one, or a function of model and loader, with its direction"),
        "epochs": (epochs or "10", "" if epochs else "how many"),
    }


def _assignments(tree: ast.Module) -> Iterator[ast.Assign]:
    """Yield the assignments to one name, in their order."""
    for node in sorted((node for node in ast.walk(tree) if isinstance(node, ast.Assign)), key=lambda node: node.lineno):
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            yield node


def _parameters_of(value: ast.expr) -> str:
    """Return whose parameters an optimizer is made of, such as `model`; empty if the value makes none."""
    if not (isinstance(value, ast.Call) and value.args):
        return ""
    first = ast.unparse(value.args[0])
    return first.removesuffix(".parameters()") if first.endswith(".parameters()") else ""


def _loss(tree: ast.Module, model: str, may_divide: bool) -> str:
    """Return the function of an output and a target that the loss is; empty if it is made otherwise.

    Args:
        tree: Of the script.
        model: What it trains, as it writes it.
        may_divide: Whether the loss may be divided by the number of batches whose gradients are accumulated.
    """
    kept = {
        ast.unparse(node.func.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward"
    }
    for node in _assignments(tree):
        value = node.value
        if may_divide and isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div):
            value = value.left
        if ast.unparse(node.targets[0]) in kept and isinstance(value, ast.Call) and len(value.args) == 2:
            simple = isinstance(value.args[1], ast.Name) and not value.keywords
            if simple and (called(value.args[0]) == model or isinstance(value.args[0], ast.Name)):
                return ast.unparse(value.func)
    return ""


def _epochs(tree: ast.Module) -> str:
    """Return how many rounds a loop over epochs has; empty if none is seen."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.For)
            and "epoch" in ast.unparse(node.target)
            and called(node.iter) in ("range", "trange")
        ):
            assert isinstance(node.iter, ast.Call)
            first, *others = map(ast.unparse, node.iter.args)
            if not others:
                return first
            return others[0].removesuffix(" + 1") if first == "1" else f"{others[0]} - {first}"
    return ""


def _imports(path: Path, tree: ast.Module) -> list[str]:
    """Return the imports of a script, and of its own classes and functions where it can be imported."""
    lines = [ast.unparse(node) for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    own = [node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name != "main"]
    if any(isinstance(node, ast.If) and "__main__" in ast.unparse(node.test) for node in tree.body):
        names = [node.name for node in own]
        return [*lines, f"from {path.stem} import {', '.join(names)}"] if names else lines
    return [*lines, *(f"\n\n{ast.unparse(node)}" for node in own)]


def _undefined(written: ast.Module, tree: ast.Module) -> list[str]:
    """Return the names that are used and made nowhere, in their order."""
    loads = [node for node in ast.walk(written) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    used = dict.fromkeys(node.id for node in sorted(loads, key=lambda node: (node.lineno, node.col_offset)))
    made = {node.id for node in ast.walk(written) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    made |= {node.arg for node in ast.walk(written) if isinstance(node, ast.arg)} | {"Clip", "Training", *dir(builtins)}
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            made |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            made.add(node.name)
    return [name for name in used if name not in made]
