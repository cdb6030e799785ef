"""From which density on are features better dense? X·W and its gradient, sparse against dense.

python benchmarks/features.py
"""

from __future__ import annotations

import scipy.sparse as sp
import torch
from _timing import side_by_side

from ncgnn.nn.inputs import SPARSE_COST
from ncgnn.sparse.matrix import ConstantSparse

NODES, FEATURES, HIDDEN = 10_000, 1_000, 512


def main() -> None:
    weight, gradient = torch.randn(FEATURES, HIDDEN), torch.randn(NODES, HIDDEN)
    print(f"features [{NODES}, {FEATURES}] times weights of width {HIDDEN}, forward and backward")
    for density in (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.35):
        matrix = sp.random_array((NODES, FEATURES), density=density, format="csr", rng=0)
        sparse = ConstantSparse.from_scipy(matrix.astype("float32"))
        dense, transpose = sparse.to_dense(), sparse.t()
        seconds = side_by_side(
            {
                "sparse": lambda s=sparse, t=transpose: (s @ weight, t @ gradient),
                "dense": lambda d=dense: (d @ weight, d.t() @ gradient),
            }
        )
        chosen = "dense" if SPARSE_COST * density >= 1 else "sparse"
        ratio = seconds["sparse"] / seconds["dense"]
        print(f"density {density:5.2f}: sparse / dense {ratio:5.2f}, models take {chosen}")


if __name__ == "__main__":
    main()
