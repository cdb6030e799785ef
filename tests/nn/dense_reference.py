"""Separated learning with dense matrices, written from the formulas.

``A[i, j]`` is 1 for an edge from j to i. ``M`` is the diagonal mask of a group.
"""

from __future__ import annotations

import torch


def identity_like(A):
    return torch.eye(len(A), dtype=A.dtype)


def power_or_zero(degrees, exponent):
    return torch.where(degrees > 0, degrees.clamp(min=1e-300) ** exponent, 0)


def symmetric(A):
    """D^-½ A D^-½, where D holds the sums of rows."""
    scale = torch.diag(power_or_zero(A.sum(1), -0.5))
    return scale @ A @ scale


def mean(A):
    """D^-1 A."""
    return torch.diag(power_or_zero(A.sum(1), -1.0)) @ A


def directed(A):
    """D_in^-½ A D_out^-½."""
    return torch.diag(power_or_zero(A.sum(1), -0.5)) @ A @ torch.diag(power_or_zero(A.sum(0), -0.5))


def neighbour_operators(backbone, separation, A, M, self_loops, separate=False):
    """How the two layers of a channel see the neighbours."""
    eye = identity_like(A)
    loops = eye if self_loops and not separate else torch.zeros_like(eye)
    norm = (directed if separate else symmetric) if backbone == "gcn" else mean
    S = norm(A + loops)
    among = M @ S @ M if backbone == "gcn" else mean(M @ (A + loops) @ M)
    if separation == "strict":
        return M @ S, among
    if separation == "source":
        return M @ S, S @ M
    if separation == "renormalized":
        return norm(M @ A + loops), norm(A @ M + loops)
    if separation == "target-only":
        return M @ S, M @ S
    assert separation == "none"
    return S, S


def written_rows(separation, M):
    """The rows that the two layers of a channel have, bias included, as diagonal masks."""
    eye = identity_like(M)
    first = M if separation in ("strict", "source", "target-only") else eye
    second = M if separation in ("strict", "target-only") else eye
    return first, second


def applied(layer, neighbours, root, rows, H):
    """GCN: Σ P·H·W. SAGE: R·H·W_root + Σ P·H·W_neighbours + b. Both for the given rows only.

    The sums have one term, or one per direction. There is a root as well in GCN where directions
    are separate and nodes have self-loops.
    """
    weights = list(layer.weights)
    out = 0 if layer.bias is None else layer.bias
    if len(weights) > len(neighbours):
        out = out + root @ H @ weights.pop(0)
    for one, weight in zip(neighbours, weights, strict=True):
        out = out + one @ H @ weight
    return rows @ out


def reference_logits(
    model, backbone, separation, A, X, group, *, self_loops, activation, separate=False
):
    """Logits with the weights of a model, which is asked for nothing else."""
    ways = [A, A.t()] if separate else [A]
    if separation == "none":
        group = torch.zeros_like(group)
    alpha = torch.exp(model.mixing) / torch.exp(model.mixing).sum(1, keepdim=True)
    channels = range(len(model.mixing))
    masks = [torch.diag((group == s).to(A.dtype)) for s in channels]
    operators = [
        list(
            zip(
                *(
                    neighbour_operators(backbone, separation, way, M, self_loops, separate)
                    for way in ways
                ),
                strict=True,
            )
        )
        for M in masks
    ]
    rows = [written_rows(separation, M) for M in masks]
    hidden = [
        torch.relu(applied(model.first[s], operators[s][0], rows[s][0], rows[s][0], X))
        for s in channels
    ]
    if separation == "target-only":
        hidden = [torch.stack(hidden).sum(0)] * len(hidden)
    Z = (1 - alpha[group, 0])[:, None] * (X @ model.raw)
    for s in channels:
        # Without the other groups' rows a node outside the group sends nothing about itself.
        root = masks[s] if separation == "source" else identity_like(A)
        H = applied(model.second[s], operators[s][1], root, rows[s][1], hidden[s])
        Z = Z + alpha[s, 0] * (torch.relu(H) if activation else H)
    return torch.relu(Z) @ model.readout.weight.t() + model.readout.bias
