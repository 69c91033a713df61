"""The number formats that a step computes in."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch

from autoaccel.runtime.knobs.effect import Effect, IneffectiveError
from autoaccel.runtime.openmp import in_each_thread

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


class Autocast(Effect):
    """Autocast to a shorter type; float16, whose small gradients vanish, with a gradient scaler."""

    switches = True

    def begin(self) -> None:
        self.dtype = DTYPES.get(str(self.value))
        self.scaler = torch.amp.GradScaler(self.device.type) if self.dtype is torch.float16 else None
        self.unscaled: set[int] = set()  # ids of optimizers whose gradients are, before their step

    def forward(self) -> AbstractContextManager[Any]:
        if self.dtype is None:
            return super().forward()
        return torch.autocast(self.device.type, dtype=self.dtype)

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        return self.scaler.scale(loss) if self.scaler else loss

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        # Always, not only if somebody asks: the scaler leaves it to a fused step to unscale, and then the optimizer's
        # own hooks, which may clip, would see gradients many thousand times too long. It costs nothing: the pass over
        # the gradients that looks for infinite ones is the same.
        if self.scaler is not None and id(optimizer) not in self.unscaled:
            self.scaler.unscale_(optimizer)
            self.unscaled.add(id(optimizer))

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        if self.scaler is None:
            return False
        self.scaler.step(optimizer)
        self.unscaled.discard(id(optimizer))
        if not self.unscaled:  # else another optimizer's step belongs to the same backward pass
            self.scaler.update()
        return True

    def state_dict(self) -> dict[str, Any]:
        return self.scaler.state_dict() if self.scaler else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self.scaler and state:
            self.scaler.load_state_dict(state)

    def check(self) -> str:
        if self.dtype is None:
            return ""
        square = torch.ones(8, 8, device=self.device, dtype=torch.float32)
        with self.forward():
            found = (square @ square).dtype
        if found != self.dtype:
            raise IneffectiveError(f"matrix products come out as {found}")
        return f"matrix products come out as {found}"


class Float32Matmul(Effect):
    """How exactly float32 matrices are multiplied."""

    switches = True

    @classmethod
    def found(cls, device: torch.device) -> str:
        try:
            return torch.get_float32_matmul_precision()
        except RuntimeError:
            # Set for one back end alone, in the way that torch has had since 2.9, where the older one cannot tell.
            backends: Any = torch.backends
            backend = backends.cuda.matmul if device.type == "cuda" else backends.mkldnn.matmul
            return {"tf32": "high", "bf16": "medium"}.get(backend.fp32_precision, "highest")

    def process(self) -> None:
        torch.set_float32_matmul_precision(str(self.value))

    def check(self) -> str:
        if (found := self.found(self.device)) != self.value:
            raise IneffectiveError(f"something has set the precision of float32 matrices to {found}")
        if self.value == "highest":
            return "float32 matrices are multiplied exactly"
        # Large enough for every back end to use its short units; the values need more bits than those have.
        factor = torch.full((256, 256), 1 + 2**-11, device=self.device, dtype=torch.float32)
        exact = (1 + 2**-11) ** 2 * 256
        if abs(float((factor @ factor)[0, 0]) - exact) < 1e-3:
            raise IneffectiveError(f"float32 matrices are multiplied as exactly as without {self.value}")
        return f"float32 matrices are multiplied with {self.value} precision"


class _Flag(Effect):
    """One of torch's own flags for CUDA."""

    switches = True

    holder: Any
    flag: str

    @classmethod
    def found(cls, device: torch.device) -> bool:
        return bool(getattr(cls.holder, cls.flag))

    def process(self) -> None:
        setattr(self.holder, self.flag, bool(self.value))

    def check(self) -> str:
        if self.found(self.device) is not self.value:
            raise IneffectiveError(f"something has changed {self.flag}")
        return f"{self.flag} is {bool(self.value)}"


class CudnnTf32(_Flag):
    """Convolutions in TF32."""

    holder, flag = torch.backends.cudnn, "allow_tf32"

    @classmethod
    def found(cls, device: torch.device) -> bool:
        try:
            return super().found(device)
        except RuntimeError:
            # Set for convolutions alone, in the way that torch has had since 2.9, where the older one cannot tell.
            convolutions: Any = torch.backends.cudnn.conv  # type: ignore[attr-defined]  # torch's stubs lack it
            return bool(convolutions.fp32_precision != "ieee")


class Fp16Reduction(_Flag):
    """float16 products added up in float16."""

    holder, flag = torch.backends.cuda.matmul, "allow_fp16_reduced_precision_reduction"


class Bf16Reduction(_Flag):
    """bfloat16 products added up in bfloat16."""

    holder, flag = torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction"


class CudnnBenchmark(_Flag):
    """cuDNN's own search for algorithms."""

    holder, flag = torch.backends.cudnn, "benchmark"


_DIVIDED = 32768  # numbers that torch gives a thread at least


class FlushDenormals(Effect):
    """Numbers too small for the normal range become zero, in all threads that compute."""

    switches = True

    @classmethod
    def found(cls, device: torch.device) -> bool:
        smallest = torch.tensor([torch.finfo(torch.float32).smallest_normal], dtype=torch.float32, device="cpu")
        return float(smallest / 2) == 0.0

    def process(self) -> None:
        in_each_thread(lambda: torch.set_flush_denormal(bool(self.value)))

    def check(self) -> str:
        # So many numbers that each thread gets some of them (at::internal::GRAIN_SIZE).
        count, smallest = _DIVIDED * torch.get_num_threads(), torch.finfo(torch.float32).smallest_normal
        shared = torch.full((count,), smallest, dtype=torch.float32, device="cpu")
        zeros = int((shared / 2 == 0.0).sum())
        if zeros != (shared.numel() if self.value else 0):
            where = "in some threads" if 0 < zeros < shared.numel() else "here"
            raise IneffectiveError(f"denormals are {'not all zero' if self.value else 'zero'} {where}")
        return "denormals are zero" if self.value else "denormals are computed"
