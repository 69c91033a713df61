"""What a script's training loop does beside a loss and an update, as arguments of a Training or in words."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import NamedTuple

Arguments = dict[str, tuple[str, str]]
"""Code by the name of the argument that it is, each with what is left to do; empty if nothing is."""


class LoopParts(NamedTuple):
    """What a Training can be told of a training loop, and what it cannot be told."""

    arguments: Arguments
    todo: tuple[str, ...]  # a sentence each
    accumulates: bool  # gradients of several batches, by which the loss may be divided


def loop_parts(tree: ast.Module, file: str, model: str, optimizer: str) -> LoopParts:
    """Return what the loops of a script do that changes the training, beside a loss and an update.

    Whatever is recognised is either an argument or told: a draft without it would be another training.

    Args:
        tree: Of the script.
        file: How it is called in what is told.
        model: What it trains, as it writes it.
        optimizer: The same of what updates it.
    """
    loops = _Loops(tree, optimizer)
    clip, clip_todo = _clipping(loops, file, model)
    scheduler, scheduler_todo = _scheduler(loops, file)
    accumulation = _accumulation(loops, file)
    todo = (*accumulation, *clip_todo, *scheduler_todo, *_others(loops, file, model))
    return LoopParts({**clip, **scheduler}, todo, bool(accumulation))


class _Loops:
    """A script with the loops and conditions around each of its calls."""

    def __init__(self, tree: ast.Module, optimizer: str) -> None:
        self.tree = tree
        self.optimizer = optimizer
        self._parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        nodes = sorted(
            (node for node in ast.walk(tree) if isinstance(node, ast.Call)),
            key=lambda node: (node.lineno, node.col_offset),
        )
        self.calls = nodes
        self.made = {
            node.targets[0].id: node
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
        }
        """The assignment of each name; of a name with several the last."""

    def named(self, *names: str) -> list[ast.Call]:
        """Return the calls of functions and methods with one of these names."""
        return [call for call in self.calls if called(call) in names]

    @property
    def updates(self) -> list[ast.Call]:
        """The calls that update the model: `optimizer.step()`, or that of what scales its gradients."""
        return [
            call
            for call in self.named("step")
            if owner(call) == self.optimizer or self.optimizer in map(ast.unparse, call.args)
        ]

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield what a node is within, from the inside to its function."""
        while (node := self._parents.get(node, self.tree)) is not self.tree:
            yield node
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
                return

    def loop_of(self, node: ast.AST) -> ast.AST | None:
        """Return the innermost loop around a node, in its function."""
        return next((one for one in self.around(node) if isinstance(one, (ast.For, ast.While))), None)

    def conditions_of(self, node: ast.AST) -> set[ast.If]:
        """Return what a node depends on within its innermost loop."""
        found = set()
        for one in self.around(node):
            if isinstance(one, (ast.For, ast.While)):
                break
            if isinstance(one, ast.If):
                found.add(one)
        return found

    def is_conditional(self, node: ast.AST) -> bool:
        """Whether it depends on more than the updates of the model do."""
        return not self.conditions_of(node) <= {one for update in self.updates for one in self.conditions_of(update)}


def called(value: ast.expr) -> str:
    """Return the last name of what is called; empty if it is no call."""
    return ast.unparse(value.func).rpartition(".")[2] if isinstance(value, ast.Call) else ""


def owner(call: ast.Call) -> str:
    """Return what a method is called of; empty if it is none."""
    return ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""


_LIMITS = {"clip_grad_norm_": ("norm", "max_norm"), "clip_grad_value_": ("value", "clip_value")}
"""What Clip calls the limit of each function of torch's, and what the function calls it."""


def _clipping(loops: _Loops, file: str, model: str) -> tuple[Arguments, list[str]]:
    found = [call for call in loops.calls if "clip" in (name := called(call)).lower() and "grad" in name.lower()]
    if not found:
        return {}, []
    call, given = found[0], found[0].args
    name, keyword = _LIMITS.get(called(call), ("", ""))
    named = {one.arg or "": one.value for one in call.keywords}
    limit = given[1] if len(given) > 1 else named.pop(keyword, None)
    parameters = ast.unparse(given[0]) if given else ""
    is_whole = parameters == f"{model}.parameters()" and set(named) <= {"error_if_nonfinite", "foreach"}
    if not name or limit is None or len(given) > 2 or not is_whole or len({ast.unparse(one) for one in found}) > 1:
        lines = ", ".join(str(one.lineno) for one in found)
        return {}, [f"{file}:{lines} clips gradients: give clip=Clip(norm=...) or Clip(value=...) to the Training."]
    todo = f"{file}:{call.lineno} clips under a condition" if loops.is_conditional(call) else ""
    return {"clip": (f"Clip({name}={ast.unparse(limit)})", todo)}, []


def _scheduler(loops: _Loops, file: str) -> tuple[Arguments, list[str]]:
    made = {name: node.value for name, node in loops.made.items() if _schedules(node.value, loops)}
    steps = [call for call in loops.named("step") if owner(call) in made or "sched" in owner(call).lower()]
    stepped = dict.fromkeys(map(owner, steps))
    by_hand = [
        f"{file}:{node.lineno} sets the learning rate: write that as a scheduler, such as "
        "torch.optim.lr_scheduler.LambdaLR, and give scheduler= to the Training."
        for node in ast.walk(loops.tree)
        if isinstance(node, (ast.Assign, ast.AugAssign))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Subscript) and ast.unparse(target.slice) in ("'lr'", "'learning_rate'")
    ]
    if not made and not steps:
        return {}, by_hand
    # One that nobody is seen to step may be one that another file steps.
    names = list(stepped) or list(made)[-1:]
    takes_metric = any(call.args or call.keywords for call in steps)
    if len(names) != 1 or names[0] not in made or takes_metric:
        lines = ", ".join(str(node.lineno) for node in (steps or map(loops.made.__getitem__, made)))
        reason = "; one that is told the metric must be written without it" if takes_metric else ""
        return {}, [f"{file}:{lines} has a learning-rate scheduler: give scheduler= to the Training{reason}.", *by_hand]
    (name,) = names
    value = _Inlined({one: code for one, code in made.items() if one != name}).visit(ast.parse(ast.unparse(made[name])))
    code = f"lambda {loops.optimizer}: {ast.unparse(value)}"
    loop = loops.loop_of(steps[0]) if steps else None
    updates = {loops.loop_of(one) for one in loops.updates} - {None}
    interval = "step" if loop in updates else "epoch"
    todo = "" if loop is not None and updates else 'or "step", if it is advanced after each step'
    conditional = next((one.lineno for one in steps if loops.is_conditional(one)), 0)
    when = f"{file}:{conditional} advances it under a condition" if conditional else ""
    return {"scheduler": (code, when), "scheduler_interval": (f'"{interval}"', todo)}, by_hand


def _schedules(value: ast.expr, loops: _Loops) -> bool:
    """Whether a value is a scheduler: made of the optimizer, and called so."""
    if not isinstance(value, ast.Call):
        return False
    given = [ast.unparse(one) for one in (*value.args, *(keyword.value for keyword in value.keywords))]
    name = called(value)
    is_scheduler = name.endswith("LR") or "ReduceLR" in name or "sched" in name.lower() or "Warm" in name
    return loops.optimizer in given and is_scheduler


class _Inlined(ast.NodeTransformer):
    """Puts what names were assigned in their place, as the parts of a SequentialLR."""

    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.AST:  # the name by which ast calls it
        value = self._values.get(node.id)
        rest = {name: one for name, one in self._values.items() if name != node.id}
        return node if value is None else _Inlined(rest).visit(ast.parse(ast.unparse(value), mode="eval").body)


def _accumulation(loops: _Loops, file: str) -> list[str]:
    """Return what is to be said of a script that makes updates more rarely than it computes gradients."""
    backwards = loops.named("backward")
    for update in loops.updates:
        loop = loops.loop_of(update)
        for backward in backwards:
            inner = loops.loop_of(backward)
            if loop is None or inner is None:
                continue
            is_conditional = inner is loop and bool(loops.conditions_of(update) - loops.conditions_of(backward))
            skips = inner is loop and any(
                isinstance(node, ast.Continue) and backward.lineno < node.lineno < update.lineno
                for node in ast.walk(loop)
            )
            has_own = any(
                isinstance(node, ast.expr) and called(node) == "step" for node in ast.walk(inner)
            )  # a critic's
            if is_conditional or skips or (loop in loops.around(inner) and not has_own):
                return [_ACCUMULATES.format(place=f"{file}:{update.lineno}")]
    configured = [
        keyword.value
        for call in loops.calls
        for keyword in call.keywords
        if keyword.arg and "accum" in keyword.arg and ast.unparse(keyword.value) != "1"
    ] + [*loops.named("accumulate", "no_sync")]
    return [_ACCUMULATES.format(place=f"{file}:{configured[0].lineno}")] if configured else []


_ACCUMULATES = (
    "{place} accumulates gradients over several batches, and a Training makes a step of each: let train_data give "
    "batches that are as many times as large."
)

_PARAMETERS = ".parameters()"  # in what makes an optimizer

_CHANGES = {
    "autocast": "computes under autocast: name its type, as in settings={{'precision.autocast': 'bfloat16'}}.",
    "GradScaler": "scales the loss, as settings={{'precision.autocast': 'float16'}} does.",
    "compile": "compiles {model}: name the mode, as in settings={{'compile.mode': 'default'}}.",
    "AveragedModel": "averages the weights over steps, which a Training does not.",
    "DistributedDataParallel": "trains in several processes; a Training has settings={{'parallel.world_size': 2}}.",
    "DataParallel": "trains on several GPUs; a Training has settings={{'parallel.world_size': 2}}.",
    "requires_grad_": "changes which parameters are trained: do the same here.",
}
"""What calls do to a training that the draft does not."""


def _others(loops: _Loops, file: str, model: str) -> list[str]:
    found: dict[str, int] = {}
    for call in loops.calls:
        name = called(call)
        if name in _CHANGES and (name != "compile" or ast.unparse(call.func) in ("torch.compile", f"{model}.compile")):
            found.setdefault(name, call.lineno)
    todo = [f"{file}:{line} {_CHANGES[name].format(model=model)}" for name, line in found.items()]
    makers = {
        name for name, node in loops.made.items() if called(node.value) and _PARAMETERS in ast.unparse(node.value)
    }
    steps = {
        owner(call): call.lineno
        for call in loops.named("step")
        if "optim" in owner(call).lower() or owner(call) in makers
    }
    todo += [f"{file}:{line} updates by {name}, too." for name, line in steps.items() if name != loops.optimizer]
    return todo
