"""The environment variables whose values may be written down or shown; those of all others may be secret."""

from __future__ import annotations

import os

SLOWING_VARIABLES = (
    "CUDA_LAUNCH_BLOCKING",
    "TORCH_SHOW_CPP_STACKTRACES",
    "TORCH_CPP_LOG_LEVEL",
    "TORCH_DISTRIBUTED_DEBUG",
    "TORCH_LOGS",
    "TORCHDYNAMO_DISABLE",
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "PYTORCH_JIT",
    "NCCL_DEBUG",
    "GLOO_LOG_LEVEL",
    "CUBLAS_WORKSPACE_CONFIG",
    "ONEDNN_VERBOSE",
    "DNNL_VERBOSE",
    "MKL_VERBOSE",
    "MKLDNN_VERBOSE",
    "ATEN_CPU_CAPABILITY",
    "ONEDNN_MAX_CPU_ISA",
    "MALLOC_CHECK_",
    "MALLOC_PERTURB_",
    "OMP_DISPLAY_ENV",
    "OMP_DISPLAY_AFFINITY",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "PYTHONDEVMODE",
    "PYTHONMALLOC",
    "PYTHONPROFILEIMPORTTIME",
    "PYTHONTRACEMALLOC",
    "ASAN_OPTIONS",
)
"""Variables with which people look for errors, or that hold hardware back."""

OPENMP_VARIABLES = (
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "OMP_SCHEDULE",
    "OMP_WAIT_POLICY",
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
)
"""They carry knobs; that a runtime has read one is shown by its value."""

OWN_VARIABLES = ("AUTOACCEL_CPUS", "AUTOACCEL_LOADER_CPUS")
"""Which CPUs a process is to keep to, as this package tells it."""

WRITTEN_VARIABLES = frozenset((*SLOWING_VARIABLES, *OPENMP_VARIABLES, *OWN_VARIABLES))
"""All of them."""


def written_value(name: str) -> str:
    """Return the value of a variable that is set, to be written down or shown."""
    assert name in WRITTEN_VARIABLES, f"{name}: not in the closed list"
    return os.environ[name]
