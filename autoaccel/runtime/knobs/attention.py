"""The kernel of scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from torch import profiler
from torch.nn.attention import SDPBackend, sdpa_kernel

from autoaccel.runtime.knobs.effect import Effect, IneffectiveError

BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}


class Attention(Effect):
    """Allow one kernel only; the first forward pass is traced to check that it was used."""

    switches = True
    called: set[str] | None = None

    def forward(self) -> AbstractContextManager[Any]:
        if self.is_off:
            return super().forward()
        kernel = sdpa_kernel(BACKENDS[str(self.value)])
        return self._traced(kernel) if self.called is None else kernel

    @contextmanager
    def _traced(self, kernel: AbstractContextManager[Any]) -> Iterator[None]:
        # With acc_events, because without it torch 2.10 warns whoever profiles.
        with profiler.profile(activities=[profiler.ProfilerActivity.CPU], acc_events=True) as trace, kernel:
            yield
        self.called = {event.key for event in trace.key_averages() if "attention" in event.key}

    def check(self) -> str:
        if self.is_off:
            return ""
        wanted = f"attention_{self.value}", f"{self.value}_attention"
        if not any(word in name for name in self.called or () for word in wanted):
            seen = ", ".join(sorted(self.called or ())) or "no scaled dot-product attention"
            raise IneffectiveError(f"the step called {seen}")
        return f"attention by the {self.value} kernel"
