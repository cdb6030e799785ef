"""Random small graphs for property tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ncgnn.data.npz import SHIPPED_SPLITS
from ncgnn.graph import Graph

_INTEGERS = st.sampled_from([np.int16, np.int32, np.int64, np.uint8, np.uint64])
_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)


@st.composite
def feature_matrices(draw, nodes):
    width = draw(st.integers(0, 4))
    kind = draw(st.sampled_from([np.float32, np.float64, np.uint8, np.int32, np.bool_]))
    number = st.integers(0, 3) if np.dtype(kind).kind in "bu" else st.integers(-2, 300)
    if np.dtype(kind).kind == "f":
        number = st.one_of(number, st.floats(-1e6, 1e6, width=32))
    rows = draw(
        st.lists(st.lists(number, min_size=width, max_size=width), min_size=nodes, max_size=nodes)
    )
    dense = np.array(rows, dtype=np.float64).reshape(nodes, width).astype(kind)
    return csr_array(dense) if draw(st.booleans()) else dense


@st.composite
def split_arrays(draw, nodes):
    splits = {}
    for family, keys in SHIPPED_SPLITS.items():
        if not draw(st.booleans()):
            continue
        variants = draw(st.integers(1, 3)) if family == "published" else 1
        # 0, 1 and 2 are the three parts, 3 is none of them.
        choice = draw(
            st.lists(st.integers(0, 3), min_size=variants * nodes, max_size=variants * nodes)
        )
        part_of = np.array(choice).reshape(variants, nodes)
        for part, key in enumerate(keys):
            masks = part_of == part
            splits[key] = (
                masks
                if family == "published"
                else draw(
                    st.permutations(np.flatnonzero(masks[0]).tolist()).map(
                        lambda order: np.array(order, dtype=np.int64)
                    )
                )
            )
    return splits


@st.composite
def graphs(draw):
    """Graphs that use every part of the format."""
    nodes = draw(st.integers(1, 6))
    ends = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1))
    edges = draw(st.lists(ends, max_size=12))
    labels = draw(
        st.lists(st.integers(-1, 3), min_size=nodes, max_size=nodes).filter(lambda y: max(y) >= 0)
    )
    names = draw(st.none() | st.lists(_TEXT, min_size=4, max_size=6))
    ids = draw(
        st.none()
        | st.lists(_TEXT, min_size=nodes, max_size=nodes, unique=True)
        | st.lists(st.integers(-(2**63), 2**63 - 1), min_size=nodes, max_size=nodes, unique=True)
    )
    return Graph.from_edge_index(
        np.array(edges, dtype=draw(_INTEGERS)).reshape(-1, 2).T,
        labels=np.array(labels, dtype=np.int64),
        features=draw(st.none() | feature_matrices(nodes)),
        shipped_splits=draw(split_arrays(nodes)),
        class_names=None if names is None else tuple(names),
        node_ids=None if ids is None else np.array(ids),
        origin=draw(_TEXT),
        num_classes=4 if names is None else len(names),
    )
