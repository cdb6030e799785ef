"""A lower layer never imports a higher one, wherever in a file the import stands."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = "ncgnn"
SOURCE = Path(__file__).resolve().parents[1] / "src" / PACKAGE
LAYERS = (
    *("graph", "sparse", "data", "metrics", "nn", "testing", "training"),
    *("experiments", "report", "paper", "cli"),
)
#: Modules of the root that speak for the whole package; all others in the root know no layer.
FACADES = {"__init__", "__main__"}
FREE_NAMES = {"__version__"}
_DOTTED = re.compile(rf"{PACKAGE}(\.\w+)+(:\w+)?$")
#: Groups of entry points, whose names look like modules.
ENTRY_POINTS = {"ncgnn.models"}


def root_modules(source=SOURCE):
    return {path.stem for path in source.glob("*.py")}


def node_names_module(node):
    """Whether a node is a string that names a module; a group of entry points is none."""
    if not isinstance(node, ast.Constant) or node.value in ENTRY_POINTS:
        return False
    return _DOTTED.match(str(node.value)) is not None


def modules_named(tree, module, *, is_package):
    """Every (line, dotted module) of the package that a file imports or names in a string."""
    parts = module.split(".")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = node.level - (1 if is_package else 0)
                above = parts[: len(parts) - up] if up else parts
                base = ".".join([*above, *([node.module] if node.module else [])])
            if base == PACKAGE:
                yield from ((node.lineno, f"{PACKAGE}.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, base
        elif node_names_module(node):
            # A name for a later import, as registries and lazy exports hold them.
            yield node.lineno, str(node.value).split(":")[0]


def violations(text, module, *, is_package=False, roots=None):
    """What a file may not import, as sentences."""
    roots = root_modules() if roots is None else roots
    parts = module.split(".")
    own = parts[1] if len(parts) > 1 else "__init__"
    if own in FACADES or own == LAYERS[-1]:
        return []
    allowed = set(LAYERS[: LAYERS.index(own) + 1]) if own in LAYERS else set()
    found = []
    for line, name in modules_named(ast.parse(text), module, is_package=is_package):
        target = name.split(".")
        if target[0] != PACKAGE:
            continue
        layer = target[1] if len(target) > 1 else "__init__"
        is_free = layer in FREE_NAMES or (layer in roots and layer not in FACADES)
        if layer not in allowed and not is_free:
            found.append(f"{module}, line {line}: imports {name}")
    return found


def files():
    for path in sorted(SOURCE.rglob("*.py")):
        parts = [PACKAGE, *path.relative_to(SOURCE).with_suffix("").parts]
        is_package = parts[-1] == "__init__"
        yield path, ".".join(parts[:-1] if is_package else parts), is_package


def test_no_layer_imports_a_higher_one():
    found = [
        sentence
        for path, module, is_package in files()
        for sentence in violations(path.read_text("utf-8"), module, is_package=is_package)
    ]
    assert not found, "\n".join(found)


def test_every_package_is_a_layer():
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages <= set(LAYERS)
    assert {"graph", "metrics"} <= packages


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("ncgnn.graph.graph", "import ncgnn.metrics"),
        ("ncgnn.graph.graph", "from ncgnn.data.splits import make_split"),
        ("ncgnn.graph.graph", "from ncgnn import metrics"),
        ("ncgnn.graph.graph", "from ncgnn import neighborhood_confusion"),
        ("ncgnn.graph.graph", "import ncgnn"),
        ("ncgnn.graph.graph", "def f():\n    from ncgnn.metrics import mean\n    return mean"),
        ("ncgnn.graph.graph", "from ..metrics import mean"),
        ("ncgnn.graph.graph", "from .. import metrics"),
        ("ncgnn.graph.graph", "if TYPE_CHECKING:\n    from ncgnn.nn import Model"),
        ("ncgnn.graph.graph", "import_module('ncgnn.training.trainer')"),
        ("ncgnn.graph.graph", "MODELS = {'gcn': 'ncgnn.nn.gcn:GCN'}"),
        ("ncgnn.data.sources.ogb", "from ncgnn.cli import main"),
        ("ncgnn.data.sources.ogb", "from ...metrics import mean"),
        ("ncgnn.errors", "from ncgnn.graph import Graph"),
        ("ncgnn._io", "def f():\n    from ncgnn import graph"),
    ],
)
def test_forbidden_imports_are_found(module, text):
    assert violations(text, module)


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("ncgnn.metrics.confusion", "from ncgnn.graph import Graph"),
        ("ncgnn.metrics.confusion", "from ncgnn._numba import compiled"),
        ("ncgnn.metrics.confusion", "from ncgnn import __version__, errors"),
        ("ncgnn.metrics.confusion", "from .neighborhoods import label_graph"),
        ("ncgnn.metrics.confusion", "from . import _kernels"),
        ("ncgnn.data.sources.ogb", "from ..npz import read_npz"),
        ("ncgnn.cli.main", "from ncgnn.report import write"),
        ("ncgnn.cli.main", "import ncgnn"),
        ("ncgnn.graph.graph", '"""Used by ncgnn.metrics and others."""\nimport numpy'),
        ("ncgnn", "from ncgnn.cli import main"),
        ("ncgnn.__main__", "from ncgnn.cli import main"),
        ("ncgnn._io", "from ncgnn.errors import InputError"),
    ],
)
def test_allowed_imports_pass(module, text):
    assert not violations(text, module)


def test_relative_imports_of_packages():
    assert not violations("from .graph import Graph", "ncgnn.graph", is_package=True)
    assert violations("from ..metrics import mean", "ncgnn.graph", is_package=True)
