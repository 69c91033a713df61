"""Remove what importing torch leaves among the temporary files of a process that is killed in the end."""

from __future__ import annotations

import contextlib
import importlib

import torch


def remove_folder_of_imports() -> None:
    """Remove the folder that torch 2.6 makes as soon as something, such as an optimizer, imports its compiler.

    It holds the source of a module that is imported at once, and is removed when a process exits; workers are killed.
    """
    if torch.__version__ >= "2.10":  # a TorchVersion, which compares as versions do
        return
    with contextlib.suppress(ImportError):  # a build without torch.distributed makes no such folder
        module = importlib.import_module("torch.distributed.nn.jit.instantiator")
        if folder := getattr(module, "_TEMP_DIR", None):
            folder.cleanup()
