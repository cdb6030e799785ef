from __future__ import annotations

import numpy as np
import pytest

from ncgnn.data.catalog import check_dataset, find_dataset
from ncgnn.data.npz import read_npz
from ncgnn.data.sources import find_parser
from ncgnn.errors import DataNotFoundError, InputError

NODE_NAME, EDGE_NAME = "out1_node_feature_label.txt", "out1_graph_edges.txt"
NODE_HEAD, EDGE_HEAD = "node_id\tfeature(feature_amount:4)\tlabel\n", "node_id\tnode_id\n"
NODE_LINES = "2\t0,3\t1\n0\t4\t0\n1\t3,1,3\t2\n"
EDGE_LINES = "0\t1\n2\t0\n0\t1\n1\t1\n"


def write(folder, nodes=NODE_HEAD + NODE_LINES, edges=EDGE_HEAD + EDGE_LINES):
    files = {}
    for name, content in ((NODE_NAME, nodes), (EDGE_NAME, edges)):
        files[name] = folder / name
        files[name].write_bytes(content if isinstance(content, bytes) else content.encode())
    return files


def test_direction_and_self_loops_stay_and_repetitions_go(tmp_path):
    arrays = find_parser("geom-gcn")(write(tmp_path))
    assert sorted(map(tuple, arrays.edge_index().T.tolist())) == [(0, 1), (1, 1), (2, 0)]
    assert arrays.labels.tolist() == [0, 2, 1]
    assert arrays.features.toarray().tolist() == [
        [0, 0, 0, 0, 1],
        [0, 1, 0, 1, 0],
        [1, 0, 0, 1, 0],
    ]


def test_no_edges_and_other_line_ends(tmp_path):
    files = write(tmp_path, (NODE_HEAD + NODE_LINES).replace("\n", "\r\n"), EDGE_HEAD)
    assert find_parser("geom-gcn")(files).edge_index().shape == (2, 0)


BAD_NODES = {
    "empty": "",
    "only a heading": NODE_HEAD,
    "node twice": NODE_HEAD + NODE_LINES + "0\t1\t1\n",
    "node left out": NODE_HEAD + "0\t1\t1\n2\t1\t1\n",
    "column left out": NODE_HEAD + "0\t1\n",
    "no features": NODE_HEAD + "0\t\t1\n",
    "text for a feature": NODE_HEAD + "0\t1,x\t1\n",
    "text for a class": NODE_HEAD + "0\t1\tx\n",
    "negative": NODE_HEAD + "-1\t1\t1\n",
    "huge": NODE_HEAD + "0\t99999999999999999999\t1\n",
    "binary": b"\xff\xfe\x00",
}
BAD_EDGES = {
    "outside": EDGE_HEAD + "0\t3\n",
    "one column": EDGE_HEAD + "0\n",
    "text": EDGE_HEAD + "0\tx\n",
    "binary": b"\xff\xfe\x00",
}


@pytest.mark.parametrize("case", BAD_NODES)
def test_malformed_node_files_are_named(tmp_path, case):
    with pytest.raises(InputError, match="node_feature_label"):
        find_parser("geom-gcn")(write(tmp_path, nodes=BAD_NODES[case]))


@pytest.mark.parametrize("case", BAD_EDGES)
def test_malformed_edge_files_are_named(tmp_path, case):
    with pytest.raises(InputError, match="graph_edges"):
        find_parser("geom-gcn")(write(tmp_path, edges=BAD_EDGES[case]))


def test_the_line_is_named(tmp_path):
    with pytest.raises(InputError, match="line 3: 'y' is not a whole number"):
        find_parser("geom-gcn")(write(tmp_path, edges=EDGE_HEAD + "0\t1\n1\ty\n"))


def test_a_missing_file(tmp_path):
    files = write(tmp_path)
    files[EDGE_NAME].unlink()
    with pytest.raises(DataNotFoundError, match="graph_edges"):
        find_parser("geom-gcn")(files)


def test_the_real_graph_in_the_authors_form(real_data_dir, tmp_path):
    stored = read_npz(real_data_dir / "actor.npz")
    rows = np.split(stored.features.indices, stored.features.indptr[1:-1])
    nodes = "".join(
        f"{node}\t{','.join(map(str, row))}\t{label}\n"
        for node, (row, label) in enumerate(zip(rows, stored.labels, strict=True))
    )
    edges = "".join(f"{source}\t{target}\n" for source, target in stored.edge_index().T)
    arrays = find_parser("geom-gcn")(write(tmp_path, NODE_HEAD + nodes, EDGE_HEAD + edges))
    check_dataset(arrays, find_dataset("actor"), str(tmp_path))
