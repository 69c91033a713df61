"""Errors as PyTorch raises them, word for word as its sources and people's reports have them."""

from __future__ import annotations

import pytest
import torch

from autoaccel.records.messages import Failure, Probe, WorkerSpec
from autoaccel.runtime import tasks
from autoaccel.runtime.library_errors import is_lost_connection, is_out_of_memory, kind_of, signature_of

_ASYNC = (
    "\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
)

OF_MEMORY = {
    "cuda error": "CUDA error: out of memory" + _ASYNC,
    "cublas": "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "cusolver": "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`",
    "cufft": "cuFFT error: CUFFT_ALLOC_FAILED",
    "cudnn 8": "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "cudnn 9": "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "cudnn 9, host": "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
    "cudnn beside torch": "CUDA ran out of memory outside PyTorch's allocator. If this workload uses many dynamic "
    "shapes, cuDNN may need additional device memory to JIT-compile shape-specialized kernels.",
    "triton": "Triton Error [CUDA]: out of memory",
    "nccl": "NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:268, unhandled cuda error, NCCL version "
    "2.19.3\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 'out of memory'",
    "hip": "HIP error: out of memory",
    "xpu": "XPU out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.56 GiB.",
    "mps": "MPS backend out of memory (MPS allocated: 5.56 GB, other allocations: 1.10 GB, max allowed: 6.80 GB). "
    "Tried to allocate 768.00 MB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit "
    "for memory allocations (may cause system failure).",
    "cpu": "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
    "allocate 1099511627776 bytes. Error code 12 (Cannot allocate memory)",
    "cpu on windows": "[enforce fail at alloc_cpu.cpp:81] data. DefaultCPUAllocator: not enough memory: you tried to "
    "allocate 1099511627776 bytes.",
    "pinned memory": "Caught RuntimeError in pin memory thread for device 0.\nOriginal Traceback (most recent call "
    "last):\nRuntimeError: CUDA error: out of memory" + _ASYNC,
}

OF_SOMETHING_ELSE = {
    "assertion": "CUDA error: device-side assert triggered" + _ASYNC,
    "access": "CUDA error: an illegal memory access was encountered" + _ASYNC,
    "busy": "CUDA error: all CUDA-capable devices are busy or unavailable" + _ASYNC,
    "shared memory of a kernel": "out of resource: shared memory, Required: 131072, Hardware limit: 101376. Reducing "
    "block sizes or `num_stages` may help.",
    "cudnn": "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
    "shapes": "mat1 and mat2 shapes cannot be multiplied (4x8 and 4x8)",
}

AMBIGUOUS = (
    "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR",
    "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
    "FIND was unable to find an engine to execute this computation",
)


@pytest.mark.parametrize("name", OF_MEMORY)
def test_every_form_of_out_of_memory_is_one(name: str) -> None:
    """Only torch's own class and the CPU's allocator were: the trial counted as one that had raised an error."""
    assert is_out_of_memory(RuntimeError(OF_MEMORY[name]))


@pytest.mark.parametrize("name", OF_SOMETHING_ELSE)
def test_other_errors_are_none(name: str) -> None:
    assert not is_out_of_memory(RuntimeError(OF_SOMETHING_ELSE[name]))


@pytest.mark.parametrize(
    "text",
    [
        "CUDA error: all CUDA-capable devices are busy or unavailable",
        "CUDA error: CUDA-capable device(s) is/are busy or unavailable",
    ],
)
def test_a_gpu_for_one_process_at_a_time_is_busy(text: str) -> None:
    """Whoever read the answer looked for these words in a sentence."""
    wrapped = RuntimeError("backend='inductor' raised")
    wrapped.__cause__ = RuntimeError(text + _ASYNC)
    assert kind_of(RuntimeError(text + _ASYNC)) == kind_of(wrapped) == "busy"


@pytest.mark.parametrize(
    "error",
    [
        OSError(98, "Address already in use"),
        RuntimeError("The server socket has failed to listen on any local network address. port: 29500, useIpv6: false,"
                     " code: -98, name: EADDRINUSE, message: address already in use"),
    ],
)  # fmt: skip
def test_a_port_that_is_taken_is_busy(error: Exception) -> None:
    assert kind_of(error) == "busy"


def test_kinds_of_other_errors() -> None:
    assert kind_of(RuntimeError(OF_MEMORY["cuda error"])) == "memory"
    assert kind_of(RuntimeError(OF_SOMETHING_ELSE["shapes"])) == "raised"


@pytest.mark.parametrize("text", AMBIGUOUS)
@pytest.mark.parametrize(("free_bytes", "is_full"), [(100 << 20, True), (8 << 30, False)])
def test_an_error_that_may_mean_it_does_where_the_gpu_is_full(
    text: str, free_bytes: int, is_full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free_bytes, 16 << 30))
    assert is_out_of_memory(RuntimeError(text)) is is_full


def test_an_error_that_may_mean_it_asks_no_gpu_that_answers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(device: torch.device) -> tuple[int, int]:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", refuses)
    assert not is_out_of_memory(RuntimeError(AMBIGUOUS[0]))


def test_torchs_own_class_and_what_wraps_it_are() -> None:
    """torch.compile wraps what it meets, and what cleans up after it fails with an error of its own."""
    inner = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
    wrapped = RuntimeError("backend='inductor' raised")
    wrapped.__cause__ = inner
    cleaning_up = KeyError("x")
    cleaning_up.__context__ = inner
    for error in (inner, wrapped, cleaning_up, MemoryError(), OSError(12, "Cannot allocate memory")):
        assert is_out_of_memory(error)


def test_signatures_differ_between_errors_not_between_their_numbers() -> None:
    gone = [RuntimeError(f"DataLoader worker (pid(s) {pid}) exited unexpectedly") for pid in (4711, 99)]
    assert signature_of(gone[0]) == signature_of(gone[1])
    other = [RuntimeError(OF_SOMETHING_ELSE["shapes"]), ValueError("DataLoader worker (pid(s) 99) exited unexpectedly")]
    assert len({signature_of(error) for error in (*gone, *other)}) == 3


def test_a_lost_connection_to_another_rank_is_one_whoever_tells_it() -> None:
    said = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:32345"
    wrapped = RuntimeError("the gradients could not be averaged")
    wrapped.__cause__ = RuntimeError(said)
    unnamed = torch.distributed.DistStoreError("Socket Timeout")  # of a class that only torch.distributed raises
    assert all(is_lost_connection(error) for error in (RuntimeError(said), wrapped, unnamed))
    assert not is_lost_connection(RuntimeError(OF_SOMETHING_ELSE["shapes"]))


def test_this_computers_own_refusal_is_a_failure_for_lack_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What torch really raises here, through a worker's task."""

    def asks_for_too_much() -> None:
        torch.empty(1 << 60, dtype=torch.uint8)

    monkeypatch.setattr(tasks, "probe_torch", asks_for_too_much)
    answer = tasks.serve(WorkerSpec(task=Probe()), line=None)  # type: ignore[arg-type]  # the task needs none
    assert isinstance(answer, Failure) and answer.kind == "memory"
