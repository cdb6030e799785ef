"""The Python code of the pages is run as it stands, but for three epochs only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ncgnn

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/extending.md", "docs/explain.md", "docs/sql.md", "docs/trust.md")


def blocks():
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for number, code in enumerate(re.findall(r"```python\n(.*?)```", text, flags=re.S)):
            yield pytest.param(code, id=f"{page}-{number}")


fit = ncgnn.fit


def train_briefly(*arguments, **options):
    return fit(*arguments, **options | {"epochs": 3})


@pytest.mark.parametrize("code", list(blocks()))
def test_code_of_the_pages_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ncgnn, "fit", train_briefly)
    exec(compile(code, "page", "exec"), {"__name__": "page"})


def test_every_example_is_short() -> None:
    text = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
    for code in re.findall(r"```python\n(.*?)```", text, flags=re.S):
        definition = re.search(r"^(class|def) .*?(?=^\S)", code, flags=re.S | re.M)
        assert definition is None or definition.group().strip().count("\n") < 15
