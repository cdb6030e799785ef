"""Row pointers and columns from checked CSR parts or from lists of entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ncgnn.errors import InputError
from ncgnn.graph._sparse_backend import path_for
from ncgnn.graph._sparse_checks import as_integers, as_shape, check_range, index_dtype
from ncgnn.graph._sparse_pattern_kernels import group

if TYPE_CHECKING:
    from ncgnn.graph._sparse_checks import ArrayLike


def checked_csr(
    indptr: ArrayLike, indices: ArrayLike, shape: tuple[int, int]
) -> tuple[torch.Tensor, torch.Tensor, tuple[int, int]]:
    """Own copies of CSR parts that are known to be consistent: the kernels do not look again."""
    m, n = as_shape(shape)
    crow, col = as_integers(indptr, "indptr"), as_integers(indices, "indices")
    if crow.device != col.device:
        raise InputError(f"indptr is on {crow.device}, but indices are on {col.device}.")
    if crow.shape[0] != m + 1:
        raise InputError(f"indptr must have {m + 1} entries for {m} rows, not {crow.shape[0]}.")
    if int(crow[0]) != 0 or int(crow[-1]) != col.shape[0] or bool((crow.diff() < 0).any()):
        raise InputError(
            f"indptr must rise from 0 to the number of indices ({col.shape[0]}) without falling."
        )
    check_range(col, "indices", n)
    dtype = index_dtype(n, m, col.shape[0])
    return crow.to(dtype, copy=True).contiguous(), col.to(dtype, copy=True).contiguous(), (m, n)


def checked_edge_index(edge_index: ArrayLike, num_nodes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The targets and the sources of edges, int64 and in range."""
    as_shape((num_nodes, num_nodes), "num_nodes")
    edges = as_integers(edge_index, "edge_index", dimensions=2).to(torch.int64)
    if edges.shape[0] != 2:
        raise InputError(f"edge_index must have shape [2, E], not {list(edges.shape)}.")
    check_range(edges, "edge_index", num_nodes)
    return edges[1], edges[0]


def merged_entries(
    rows: torch.Tensor, cols: torch.Tensor, shape: tuple[int, int]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """CSR parts with ascending columns and one entry per place, and where each entry went."""
    m, n = shape
    keys, order = torch.sort(rows * n + cols, stable=True)
    fresh = torch.ones_like(keys, dtype=torch.bool)
    fresh[1:] = keys[1:] != keys[:-1]
    kept = keys[fresh]
    place = torch.empty_like(order)
    place[order] = fresh.cumsum(0) - 1
    # Row i begins at the first key that is not below i·n.
    first_keys = torch.arange(m + 1, device=keys.device) * n
    dtype = index_dtype(n, m, kept.shape[0])
    crow = torch.searchsorted(kept, first_keys).to(dtype)
    return crow, (kept % max(n, 1)).to(dtype), place


def grouped(keys: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions of every key 0 .. size - 1: ``order[starts[k] : starts[k + 1]]``, ascending."""
    dtype = index_dtype(size, keys.shape[0])
    if path_for(keys.device) == "compiled":
        starts = torch.empty(size + 1, dtype=dtype)
        order = torch.empty(keys.shape[0], dtype=dtype)
        group(keys.numpy(), starts.numpy(), order.numpy())
        return starts, order
    ordered, order = torch.sort(keys, stable=True)
    bounds = torch.arange(size + 1, device=keys.device, dtype=keys.dtype)
    return torch.searchsorted(ordered, bounds).to(dtype), order.to(dtype)
