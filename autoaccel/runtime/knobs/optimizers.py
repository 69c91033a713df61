"""The form in which an optimizer computes its update."""

from __future__ import annotations

import weakref

import torch

from autoaccel.runtime.knobs.effect import Effect, IneffectiveError
from autoaccel.runtime.knobs.forms import OtherForm, has_form


class _Form(Effect):
    """The groups of an optimizer in other forms."""

    optimizer_arguments = ("fused", "foreach")
    switches = True

    switched: torch.optim.Optimizer | None = None  # the last one

    def begin(self) -> None:
        self._forms: weakref.WeakKeyDictionary[torch.optim.Optimizer, OtherForm] = weakref.WeakKeyDictionary()

    def forms(self, optimizer: torch.optim.Optimizer) -> dict[str, bool | None]:
        """Return what the groups are to say of each form, None for torch's choice; empty to leave them as they are."""
        raise NotImplementedError

    def optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        forms = self.forms(optimizer)
        if not forms or optimizer in self._forms or not has_form(optimizer, next(iter(forms))):
            return optimizer
        # Of scalers only our own, which unscales before the step: see `Autocast.unscale`.
        unscales = self.settings.get("precision.autocast") == "float16"
        self._forms[optimizer] = OtherForm(optimizer, forms, unscales)
        self.switched = optimizer
        return optimizer

    def withdraw(self) -> None:
        for optimizer, form in self._forms.items():
            form.end(optimizer)
        self._forms.clear()

    def check(self) -> str:
        if self.switched is None:
            if self.is_off:
                return ""
            raise IneffectiveError(f"the optimizer has no {self.name.partition('.')[2]} form")
        switched = self._forms[self.switched]
        form, value = next(iter(switched.forms.items()))
        if any(group.get(form) is not value for group in self.switched.param_groups):
            raise IneffectiveError(f"something has changed {form} in the optimizer's groups")
        if not switched.is_asked:
            raise IneffectiveError(f"{type(self.switched).__name__} has its own step, which does not use this form")
        return f"{type(self.switched).__name__} {self.words()}"

    def words(self) -> str:
        """Return how it updates, for people."""
        raise NotImplementedError


class Fused(_Form):
    """One fused kernel for all parameters."""

    @classmethod
    def found_in(cls, optimizer: torch.optim.Optimizer) -> bool | None:
        is_fused = has_form(optimizer, "fused") and all(group["fused"] for group in optimizer.param_groups)
        return True if is_fused else None

    def forms(self, optimizer: torch.optim.Optimizer) -> dict[str, bool | None]:
        if not self.is_off:
            return {"fused": True, "foreach": False}
        return {"fused": None} if any(group.get("fused") for group in optimizer.param_groups) else {}

    def words(self) -> str:
        return "not fused" if self.is_off else "fused"


class Foreach(_Form):
    """One operator after another over all parameters, or one parameter after another."""

    @classmethod
    def found_in(cls, optimizer: torch.optim.Optimizer) -> str | None:
        if Fused.found_in(optimizer) or not has_form(optimizer, "foreach"):
            return None
        forms = {group["foreach"] for group in optimizer.param_groups}
        if len(forms) != 1 or None in forms:
            return None  # torch chooses, for some groups at least
        return "on" if forms.pop() else "off"

    def forms(self, optimizer: torch.optim.Optimizer) -> dict[str, bool | None]:
        if not self.is_off:
            return {"foreach": self.value == "on", "fused": None}
        groups = optimizer.param_groups
        if all(group.get("foreach") is None or group.get("fused") for group in groups):
            return {}
        return {"foreach": None}

    def words(self) -> str:
        return {"on": "by operator", "off": "by parameter"}.get(str(self.value), "as torch chooses")
