"""No code of the package runs what a file or a text tells it to."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"
#: Modules whose loaders run code out of what they read.
UNPICKLERS = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
LOADERS = {"load", "loads", "open", "Unpickler", "_Unpickler", "Shelf", "DbfilenameShelf"}
OTHER_CALLS = {
    "eval": "runs a text",
    "exec": "runs a text",
    "builtins.eval": "runs a text",
    "builtins.exec": "runs a text",
    "compile": "makes code of a text",
    "os.system": "runs a shell",
    "os.popen": "runs a shell",
    "subprocess.getoutput": "runs a shell",
    "subprocess.getstatusoutput": "runs a shell",
    "pandas.read_pickle": "unpickles",
    "yaml.load": "builds any object; use safe_load",
    "yaml.unsafe_load": "builds any object",
    "yaml.full_load": "builds any object",
    "torch.package.PackageImporter": "runs code out of a file",
    "torch.hub.load": "runs code from the internet",
}


def aliases_of(tree):
    """For each imported name the full name of what it stands for."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                whole = alias.name if alias.asname else alias.name.split(".")[0]
                found[alias.asname or whole] = whole
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def full_name(node, aliases):
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([aliases.get(node.id, node.id), *reversed(parts)])


def _is(node, value):
    return isinstance(node, ast.Constant) and node.value is value


def risks_of_call(node, aliases):
    name = full_name(node.func, aliases)
    module, _, function = name.rpartition(".")
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    if module in UNPICKLERS and function in LOADERS:
        yield f"{name} runs code out of what it reads"
    if name in OTHER_CALLS:
        yield f"{name} {OTHER_CALLS[name]}"
    if name in ("torch.load", "torch.serialization.load") and not _is(
        keywords.get("weights_only"), True
    ):
        yield f"{name} without weights_only=True"
    if "allow_pickle" in keywords and not _is(keywords["allow_pickle"], False):
        yield f"{name} with allow_pickle"
    if "shell" in keywords and not _is(keywords["shell"], False):
        yield f"{name} with shell"


def risks_of_class(node, aliases):
    """An unpickler may only be derived from to say which names it finds."""
    for base in node.bases:
        module, _, name = full_name(base, aliases).rpartition(".")
        methods = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
        if module in UNPICKLERS and name in LOADERS and "find_class" not in methods:
            yield f"class {node.name} unpickles without a find_class of its own"


def risks(text):
    tree = ast.parse(text)
    aliases = aliases_of(tree)
    found = []
    called = set()
    for node in ast.walk(tree):
        sentences = []
        if isinstance(node, ast.Call):
            called.add(id(node.func))
            sentences = risks_of_call(node, aliases)
        elif isinstance(node, ast.ClassDef):
            sentences = risks_of_class(node, aliases)
        elif isinstance(node, (ast.Name, ast.Attribute)) and id(node) not in called:
            # A loader that is handed on to be called elsewhere.
            name = full_name(node, aliases)
            module, _, function = name.rpartition(".")
            if module in UNPICKLERS and function in ("load", "loads"):
                sentences = [f"{name} is handed on"]
        found += [f"line {node.lineno}: {sentence}" for sentence in sentences]
    return found


def test_the_package_runs_nothing_that_it_reads():
    files = sorted(SOURCE.rglob("*.py"))
    assert files
    found = [
        f"{path.relative_to(SOURCE)}, {sentence}"
        for path in files
        for sentence in risks(path.read_text("utf-8"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "import pickle\npickle.load(stream)",
        "import pickle as p\np.loads(content)",
        "from pickle import load\nload(stream)",
        "from pickle import loads as read\nread(content)",
        "import pickle\nread = pickle.load",
        "import pickle\npickle.Unpickler(stream).load()",
        "import pickle\nclass Reader(pickle.Unpickler):\n    pass",
        "import joblib\njoblib.load(path)",
        "import shelve\nshelve.open(path)",
        "import numpy as np\nnp.load(path, allow_pickle=True)",
        "import numpy as np\nnp.load(path, allow_pickle=trusted)",
        "import torch\ntorch.load(path)",
        "import torch\ntorch.load(path, weights_only=False)",
        "from torch import load\nload(path)",
        "def f():\n    import torch\n    return torch.load(path, map_location='cpu')",
        "eval(text)",
        "exec(text)",
        "import subprocess\nsubprocess.run(command, shell=True)",
        "import os\nos.system(command)",
        "import yaml\nyaml.load(stream)",
    ],
)
def test_risks_are_found(text):
    assert risks(text)


@pytest.mark.parametrize(
    "text",
    [
        "import numpy as np\nnp.load(path, allow_pickle=False)",
        "import numpy as np\nnp.load(path)",
        "import torch\ntorch.load(path, weights_only=True)",
        "import pickle\nclass Reader(pickle.Unpickler):\n    def find_class(self, m, n): ...",
        "import pickle\nraise pickle.UnpicklingError",
        "model.eval()",
        "import json\njson.load(stream)",
        "import re\nre.compile(pattern)",
        "import subprocess\nsubprocess.run(['git', 'log'])",
        "import subprocess\nsubprocess.run(['git', 'log'], shell=False)",
    ],
)
def test_harmless_code_passes(text):
    assert not risks(text)
