"""Tensors that do not store all of their numbers: looked at where they have some, and never made dense."""

from __future__ import annotations

import math

import torch
from torch import nn


def stored(tensor: torch.Tensor) -> torch.Tensor:
    """Return the numbers that a tensor stores: all of a dense one, else those that are not left out as zeros."""
    if tensor.layout is torch.strided:
        return tensor
    return tensor.coalesce().values() if tensor.layout is torch.sparse_coo else tensor.values()


def numbers_at(tensor: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Return the real numbers at these places of a tensor, flattened; a complex number is two.

    Args:
        tensor: Dense, or with some rows, such as the gradient of an embedding.
        index: On the device of the tensor.
    """
    if tensor.layout is torch.strided:
        return real(tensor).reshape(-1)[index]
    width = math.prod(tensor.shape[1:]) * (2 if tensor.is_complex() else 1)
    rows, places = torch.unique(index // width, return_inverse=True)
    return real(tensor.index_select(0, rows).to_dense()).reshape(-1)[places * width + index % width]


def real(tensor: torch.Tensor) -> torch.Tensor:
    """Return the real numbers that a dense tensor consists of."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def bytes_of_tensor(tensor: torch.Tensor) -> int:
    """Return the bytes that a tensor takes, a sparse one with its indices."""
    if tensor.layout is torch.strided:
        return tensor.element_size() * tensor.numel()
    if tensor.layout is torch.sparse_coo:
        parts = [tensor._indices(), tensor._values()]
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        parts = [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    else:
        parts = [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return sum(part.element_size() * part.numel() for part in parts)


def makes_sparse_gradients(model: nn.Module) -> bool:
    """Whether an embedding of the model is asked for gradients of the rows that it has looked up alone."""
    return any(isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and module.sparse for module in model.modules())
