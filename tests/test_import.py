"""Importing and asking for help stay light."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"torch", "torch_geometric", "numba", "scipy", "sklearn", "matplotlib", "pyarrow", "numpy"}


def modules_after(code: str) -> set[str]:
    probe = f"{code}\nimport sys\nprint(' '.join({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_import_loads_nothing_heavy() -> None:
    assert not HEAVY & modules_after("import ncgnn")


def test_help_loads_nothing_heavy() -> None:
    code = """
import sys
from ncgnn.cli import main
sys.argv = ["ncgnn", "--help"]
try:
    main()
except SystemExit:
    pass
"""
    assert not HEAVY & modules_after(code)


def test_analysis_does_not_load_torch() -> None:
    code = "import ncgnn; ncgnn.analyze(ncgnn.generate(50, 100))"
    assert not {"torch", "torch_geometric"} & modules_after(code)


def test_every_public_name_resolves() -> None:
    import ncgnn
    import ncgnn.data
    import ncgnn.graph
    import ncgnn.metrics
    import ncgnn.report

    for package in (ncgnn, ncgnn.data, ncgnn.graph, ncgnn.metrics, ncgnn.report):
        for name in package.__all__:
            assert getattr(package, name) is not None
            assert name in dir(package)


def test_unknown_attribute_is_an_attribute_error() -> None:
    import ncgnn

    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = ncgnn.no_such_thing
