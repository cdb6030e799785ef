from __future__ import annotations

import os
import pickle
from collections import defaultdict

import numpy as np
import pytest
import python2_pickle
from scipy.sparse import csr_matrix

from ncgnn.data.sources import find_parser
from ncgnn.data.sources.planetoid import load_pickle
from ncgnn.errors import DataNotFoundError, InputError

KNOWN, TRAIN, CLASSES = 510, 4, 3
# The nodes 511 and 513 are isolated: they are in no file.
TEST = [514, 510, 512]
NODES = 515


def contents(rng):
    """The objects of a small dataset, and what they say: features, labels, edges."""
    features = (rng.random((NODES, 6)) < 0.3) * rng.integers(1, 4, (NODES, 6)).astype(np.float32)
    labels = rng.integers(0, CLASSES, NODES)
    isolated = [511, 513]
    features[isolated], labels[isolated] = 0, 0
    one_hot = np.eye(CLASSES, dtype=np.int32)[labels]
    graph = defaultdict(list)
    # Both directions, one edge twice, one self-loop.
    for a, b in [(0, 1), (1, 0), (0, 1), (2, 2), (3, 514), (514, 3), (510, 509), (509, 510)]:
        graph[a].append(b)
    objects = {
        "x": csr_matrix(features[:TRAIN]),
        "y": one_hot[:TRAIN],
        "allx": csr_matrix(features[:KNOWN]),
        "ally": np.asfortranarray(one_hot[:KNOWN]),
        "tx": csr_matrix(features[TEST]),
        "ty": one_hot[TEST],
        "graph": graph,
    }
    edges = {(0, 1), (1, 0), (3, 514), (514, 3), (510, 509), (509, 510)}
    return objects, (features, labels, edges)


def write(folder, objects, dumps=python2_pickle.dumps, test=TEST):
    files = {}
    for part, content in objects.items():
        path = folder / f"ind.tiny.{part}"
        path.write_bytes(content if isinstance(content, bytes) else dumps(content))
        files[path.name] = path
    path = folder / "ind.tiny.test.index"
    path.write_text("".join(f"{node}\n" for node in test))
    return files | {path.name: path}


@pytest.fixture
def objects():
    return contents(np.random.default_rng(0))[0]


WRITERS = {
    "Python 2": python2_pickle.dumps,
    "protocol 2": lambda content: pickle.dumps(content, protocol=2),
    "protocol 4": lambda content: pickle.dumps(content, protocol=4),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_graph_features_labels_and_split(tmp_path, writer):
    objects, (features, labels, edges) = contents(np.random.default_rng(1))
    arrays = find_parser("planetoid")(write(tmp_path, objects, WRITERS[writer]))
    np.testing.assert_array_equal(arrays.features.toarray(), features)
    assert arrays.features.dtype == np.float32
    np.testing.assert_array_equal(arrays.labels, labels)
    assert set(map(tuple, arrays.edge_index().T.tolist())) == edges
    assert arrays.edge_index().shape == (2, len(edges))
    assert arrays.shipped_splits["planetoid_train"].tolist() == list(range(TRAIN))
    assert arrays.shipped_splits["planetoid_val"].tolist() == list(range(TRAIN, TRAIN + 500))
    assert arrays.shipped_splits["planetoid_test"].tolist() == sorted(TEST)


def test_dense_features_are_taken(tmp_path, objects):
    expected = objects["allx"].toarray()
    dense = {part: objects[part].toarray() for part in ("x", "allx", "tx")}
    arrays = find_parser("planetoid")(write(tmp_path, objects | dense))
    np.testing.assert_array_equal(arrays.features.toarray()[:KNOWN], expected)


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return os.system, (f"touch {self.target}",)


def test_the_payload_is_a_real_one(tmp_path):
    target = tmp_path / "made"
    pickle.loads(pickle.dumps(Payload(target)))
    assert target.exists()


@pytest.mark.parametrize("part", ["x", "y", "allx", "ally", "tx", "ty", "graph"])
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_malicious_pickle_runs_nothing(tmp_path, objects, part, protocol):
    target = tmp_path / "made"
    content = pickle.dumps(Payload(target), protocol=protocol)
    files = write(tmp_path, objects | {part: content})
    with pytest.raises(InputError, match=r"posix.system|nt.system|os.system"):
        find_parser("planetoid")(files)
    assert not target.exists()


def test_a_payload_inside_an_allowed_object_runs_nothing(tmp_path, objects):
    target = tmp_path / "made"
    graph = defaultdict(list, {0: [Payload(target)]})
    files = write(tmp_path, objects | {"graph": pickle.dumps(graph)})
    with pytest.raises(InputError, match="not allowed"):
        find_parser("planetoid")(files)
    assert not target.exists()


HOSTILE = {
    "dotted name": b"\x80\x04\x8c\x05numpy\x8c\x0fndarray.__new__\x93.",
    "other function": b"\x80\x02cbuiltins\neval\n(U\x011tR.",
    "persistent object": b"\x80\x02U\x03abcQ.",
    "extension": b"\x80\x02\x82\x01.",
    "state for a function": b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n}b.",
    "state for a type": b"\x80\x02cnumpy\nndarray\n}b.",
    "state for list": b"\x80\x02c__builtin__\nlist\n}(U\x01aK\x01ub.",
    "objects": python2_pickle.dumps(np.zeros((1, 1), dtype=np.int64)).replace(b"i8", b"O8"),
    "a wrong length": python2_pickle.dumps(np.zeros((1, 1), dtype=np.int64)).replace(b"i8", b"i4"),
    "a number": b"\x80\x02K\x01.",
    "nothing": b"",
    "text": b"hello",
    "lists of lists": b"\x80\x02c__builtin__\nlist\n]q\x00(h\x00e\x85R.",
    "a dictionary of others": b"\x80\x02ccollections\ndefaultdict\nc__builtin__\nlist\n}\x86R.",
    "one text many times": b"\x80\x02c_codecs\nencode\nq\x00X\x28\x00\x00\x00"
    + b"a" * 40
    + b"q\x01X\x06\x00\x00\x00latin1q\x02\x86q\x03Rh\x00h\x03Rh\x00h\x03R\x87.",
    "an encoding": b"\x80\x02c_codecs\nencode\n(X\x01\x00\x00\x00aX\x03\x00\x00\x00hextR.",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_pickles_are_refused(tmp_path, case):
    path = tmp_path / "ind.tiny.x"
    path.write_bytes(HOSTILE[case])
    with pytest.raises(InputError, match="not a readable Planetoid file"):
        load_pickle(path)


def test_a_number_is_no_content_of_an_array(tmp_path):
    """As a number of bytes it would be made into that many zeros."""
    whole = python2_pickle.dumps(np.zeros(8, dtype=np.int8))
    content = whole.replace(python2_pickle._string(bytes(8)), python2_pickle._int(8))
    assert content != whole
    path = tmp_path / "ind.tiny.x"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"ind\.tiny\.x .*is not bytes"):
        load_pickle(path)


def test_damaged_pickles_are_refused_or_harmless(tmp_path):
    whole = python2_pickle.dumps(csr_matrix(np.eye(3, dtype=np.float32)))
    path = tmp_path / "ind.tiny.x"
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= (0x01, 0xFF, 0x20)[position % 3]
        for content in (damaged, whole[:position]) if position % 5 == 0 else (damaged,):
            path.write_bytes(content)
            try:
                load_pickle(path)
            except InputError:
                continue


SHARED = pickle.dumps(dict.fromkeys(range(KNOWN), [0] * 40), protocol=2)
BAD_OBJECTS = {
    "one list for many nodes": ("graph", SHARED),
    "labels are no table": ("ty", np.zeros(3, dtype=np.int32)),
    "labels are a graph": ("ally", {0: [1]}),
    "features are a graph": ("allx", {0: [1]}),
    "features of other width": ("tx", np.ones((3, 2), dtype=np.float32)),
    "features of other height": ("tx", np.ones((2, 6), dtype=np.float32)),
    "too few training features": ("x", np.ones((3, 6), dtype=np.float32)),
    "too few nodes": ("ally", np.ones((100, 3), dtype=np.int32)),
    "graph is an array": ("graph", np.ones((2, 2))),
    "neighbors outside": ("graph", {0: [515]}),
    "neighbors negative": ("graph", {0: [-1]}),
    "features are NaN": ("allx", np.full((KNOWN, 6), np.nan)),
}


@pytest.mark.parametrize("case", BAD_OBJECTS)
def test_files_that_do_not_fit_are_named(tmp_path, objects, case):
    part, content = BAD_OBJECTS[case]
    files = write(tmp_path, objects | {part: content})
    with pytest.raises(InputError, match=str(tmp_path)):
        find_parser("planetoid")(files)


@pytest.mark.parametrize("test", [[], [510, 510, 512], [3, 510, 512], [510, 512], ["x", 510, 512]])
def test_a_wrong_test_index_is_named(tmp_path, objects, test):
    with pytest.raises(InputError, match=r"test\.index"):
        find_parser("planetoid")(write(tmp_path, objects, test=test))


def test_missing_files(tmp_path, objects):
    files = write(tmp_path, objects)
    files["ind.tiny.tx"].unlink()
    with pytest.raises(DataNotFoundError, match=r"ind\.tiny\.tx does not exist"):
        find_parser("planetoid")(files)
    del files["ind.tiny.tx"]
    with pytest.raises(InputError, match=r"files must hold one \*\.tx; got 0"):
        find_parser("planetoid")(files)
