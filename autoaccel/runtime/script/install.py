"""Install settings at the parts of a script: its models when they are called, its optimizers, its loaders."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from autoaccel.records.script import LoaderKey
from autoaccel.records.seen import ScriptFacts
from autoaccel.records.settings import Value
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.batches import map_tensors
from autoaccel.runtime.knobs.effect import Effect, IneffectiveError
from autoaccel.runtime.loaders import draw_as, draw_seeds_as_told
from autoaccel.runtime.script.numbering import Naming, length_of, size_of_batches, whole

_OF_WORKERS = {"persistent_workers": False, "prefetch_factor": None, "timeout": 0, "multiprocessing_context": None}
"""What a loader without workers must not be told, as torch's constructor has it."""


class Equipped:
    """A module of a script's own, and what computes in its place where it is trained."""

    def __init__(self, applied: AppliedToScript, module: nn.Module) -> None:
        """Begin with what the settings make of it."""
        self._applied = applied
        self._module = weakref.ref(module)
        self._before = vars(module).get(_CALL)
        self.own: Callable[..., Any] = self._before or module._call_impl
        """Calls it as the script has made it."""
        self.trained: nn.Module | None = None
        """None where it is called as it is."""
        self.evaluated: Callable[[], None] | None = None
        """Called before each call of it that is no training."""
        self.follow()

    @property
    def module(self) -> nn.Module:
        """The script's own."""
        module = self._module()
        assert module is not None  # it is asked for while it is called
        return module

    def follow(self) -> None:
        """Take what the settings make of it now."""
        module = self._module()
        self.trained = self._applied.model(module) if module is not None and self._applied.changing_calls else None

    def compute(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what it computes in training."""
        if self.trained is None:
            return self.own(*args, **kwargs)
        module = self.module
        # What is called below may come back to the module itself, which then is to be what it was.
        call = vars(module)[_CALL]
        vars(module)[_CALL] = self._before
        try:
            return self._applied.trained(self.trained, args, kwargs)
        finally:
            vars(module)[_CALL] = call

    def let_go(self) -> None:
        """Let the module be called as the script has made it."""
        module = self._module()
        if module is not None and self._before is None:
            vars(module).pop(_CALL, None)
        elif module is not None:
            vars(module)[_CALL] = self._before


class AppliedToScript(Applied):
    """Settings applied to this process, and to what a script makes in it."""

    equips_all = False
    """Whether models are equipped whose calls are as they were: they may be changed later."""

    def __init__(self, settings: Mapping[str, Value], device: str, found: Mapping[str, Value] | None) -> None:
        """Apply the settings to this process; see `Applied`."""
        super().__init__(settings, device, found)
        self._is_short = settings.get("precision.autocast", "off") != "off"
        self.failed: Callable[[BaseException], None] | None = None
        """Called with the error of the first call of a model under these settings: a script may catch it, and go on."""
        self._calls = 0  # of models that were equipped
        self._calls_before = 0  # the last check
        self._loaders = 0  # that have got the settings' arguments
        self.equipped: weakref.WeakSet[Equipped] = weakref.WeakSet()
        """As long as their modules live."""
        self.calls: Callable[[Equipped, tuple[Any, ...], dict[str, Any]], Any] | None = None
        """Makes calls of models in training, in the place of `Equipped.compute`; None: that does."""
        _in_force.append(self)

    @property
    def has_equipped_all(self) -> bool:
        """Whether neither a model nor an optimizer that the script may still make is to be changed."""
        own = (Effect.optimizer, Effect.rate_factor)
        return not self.changing_calls and all(
            effect.is_off or (type(effect).optimizer, type(effect).rate_factor) == own for effect in self._effects
        )

    def loader_changed(self) -> None:
        """Note that a loader has got the settings' arguments."""
        self._loaders += 1

    def effects_at_end(self) -> tuple[list[str], dict[str, str]]:
        """Return which settings took effect, now that the script is over, and which did not and why.

        Not by `check` alone: workers of loaders are gone by now.
        """
        took, not_taken = list[str](), dict[str, str]()
        for effect in self._effects:
            if reason := self._why_not(effect):
                not_taken[effect.name] = reason
            else:
                took.append(effect.name)
        return took, not_taken

    def _why_not(self, effect: Effect) -> str:
        if type(effect).loader_arguments is not Effect.loader_arguments:
            return "" if self._loaders else "no DataLoader was made like the one that fed the training"
        if effect.name in self.changing_calls and not self._calls:
            return "no model was called to train it"
        try:
            effect.check()
        except IneffectiveError as error:
            return str(error)
        found = effect.found(self.device)
        return "" if found is None or found == effect.value else f"the script has set {found}"

    def equip_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Let an optimizer that is about to make its first update do it as the settings say."""
        changed = self.optimizer(optimizer)
        assert changed is optimizer  # of those that replace it none acts in scripts

    def equip_model(self, module: nn.Module, evaluated: Callable[[], None] | None = None) -> None:
        """Let a module that the script itself calls compute as the settings say, wherever it is trained.

        The module stays the script's own object. What replaces its call lies where `Module.compile()` puts such a
        thing: copies of the module do not have it, and it is not pickled.

        Args:
            module: Is about to be called for the first time.
            evaluated: Called before each call of it that is no training.
        """
        known: Equipped | None = getattr(vars(module).get(_CALL), "equipped", None)
        if known is not None:
            known.evaluated = evaluated or known.evaluated
        if known is not None or not (self.changing_calls or evaluated or self.equips_all):
            return
        equipped = Equipped(self, module)
        equipped.evaluated = evaluated
        self.equipped.add(equipped)
        own = equipped.own

        def call(*args: Any, **kwargs: Any) -> Any:
            if module.training and torch.is_grad_enabled():
                return self.called(equipped, args, kwargs)
            if equipped.evaluated is not None:
                equipped.evaluated()
            return own(*args, **kwargs)  # evaluations are as they were

        call.equipped = equipped  # type: ignore[attr-defined]  # marks it as ours
        vars(module)[_CALL] = call

    def called(self, equipped: Equipped, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call of a model in training."""
        return equipped.compute(args, kwargs) if self.calls is None else self.calls(equipped, args, kwargs)

    def trained(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what a model computes in training under these settings."""
        self._calls += 1
        try:
            with self.forward():
                outputs = model(*self.arranged(args), **self.arranged(kwargs))
        except Exception as error:
            if self._calls == 1 and self.failed is not None:
                self.failed(error)
            raise
        return map_tensors(as_float32, outputs) if self._is_short else outputs

    def check(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the same as for any training; what changes models has no effect if none of them is called any more."""
        learned, ineffective = super().check()
        if self._calls == self._calls_before:
            unheard = "the script no longer calls a model that is trained"
            ineffective = {**dict.fromkeys(self.changing_calls, unheard), **ineffective}
        self._calls_before = self._calls
        return learned, ineffective


_CALL = "_compiled_call_impl"
_SHORT = (torch.bfloat16, torch.float16)


def as_float32(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of a short type as float32, as the script would have got it; any other as it is."""
    return tensor.float() if tensor.dtype in _SHORT else tensor


_in_force: list[AppliedToScript] = []  # in this process


def effects_at_end() -> tuple[list[str], dict[str, str]]:
    """Return which settings took effect in this process, and which did not; see `AppliedToScript.effects_at_end`."""
    return _in_force[-1].effects_at_end() if _in_force else ([], {})


def install_loaders(facts: ScriptFacts, applied: AppliedToScript, named: Naming = whole) -> None:
    """Give each loader that is made from now on, and whose batches are trained on, the settings' arguments.

    Args:
        facts: Say which these are.
        applied: The settings.
        named: What of its key tells a loader here, where the script may be run with other arguments.
    """
    feeding = frozenset(named(loader.key) for loader in facts.loaders if loader.feeds and not loader.fixed)
    kind: Any = DataLoader
    own_init = kind.__init__
    signature = inspect.signature(own_init)

    @functools.wraps(own_init)
    def made(loader: DataLoader[Any], *args: Any, **kwargs: Any) -> None:
        given = signature.bind(loader, *args, **kwargs).arguments
        given.pop("self")
        if named(key_of_arguments(given)) in feeding:
            kept = bool(given.get("persistent_workers") and given.get("num_workers"))
            given = {**given, **changed_arguments(given, applied)}
            own_init(loader, **given)
            applied.loader_changed()
            draw_as(loader, kept)
            return
        own_init(loader, **given)

    kind.__init__ = made  # for as long as this process lives
    draw_seeds_as_told()


def changed_arguments(given: dict[str, Any], applied: Applied) -> dict[str, Any]:
    """Return the arguments of a loader that settings decide on.

    Args:
        given: By the script.
        applied: The settings.
    """
    arguments = applied.loader_arguments({})
    if arguments.get("num_workers", given.get("num_workers", 0)) == 0:
        arguments = {**arguments, **{name: value for name, value in _OF_WORKERS.items() if name in given}}
    return arguments


def key_of_arguments(given: dict[str, Any]) -> LoaderKey:
    """Return the key of the loader that will be made of these arguments; see `key_of`."""
    dataset, batches = given["dataset"], given.get("batch_sampler")
    if batches is not None:
        return LoaderKey(type(dataset).__name__, length_of(dataset), size_of_batches(batches), type(batches).__name__)
    sampler = given.get("sampler")
    if sampler is not None:
        name = type(sampler).__name__
    elif isinstance(dataset, IterableDataset):
        name = "_InfiniteConstantSampler"
    else:
        name = "RandomSampler" if given.get("shuffle") else "SequentialSampler"
    return LoaderKey(type(dataset).__name__, length_of(dataset), given.get("batch_size", 1), name)
