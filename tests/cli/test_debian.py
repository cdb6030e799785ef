"""Six commands from an empty folder to named, explained answers, on Debian's packages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import read_csv, write_csv
from typer.testing import CliRunner

from ncgnn.cli import app

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def debian(real_data_dir: Path) -> Path:
    folder = real_data_dir / "debian"
    if not folder.is_dir():
        pytest.skip(f"Debian's packages are not in {folder}")
    return folder


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs a command in an empty folder; it must succeed."""
    monkeypatch.chdir(tmp_path)

    def invoke(*words: str) -> str:
        done = CliRunner().invoke(app, list(words))
        assert done.exit_code == 0, done.output
        return done.stdout

    return invoke


def write_tables(debian: Path, count: int | None) -> dict[str, str]:
    """CSV of both releases, 30 % of the older one's labels hidden; the hidden ones by package.

    Args:
        debian: Where the tables are.
        count: How many packages of each release take part; None = all.
    """
    hidden: dict[str, str] = {}
    random = np.random.default_rng(0)
    for release in ("bookworm", "trixie"):
        nodes = pq.read_table(debian / release / "packages.parquet")
        edges = pq.read_table(debian / release / "dependencies.parquet")
        if count is not None:
            # Neighbors in the alphabet belong together, so a stretch of it has edges.
            nodes = nodes.slice(30_000, count)
        both = (pc.is_in(edges[end], value_set=nodes["package"]) for end in ("package", "needs"))
        edges = edges.filter(pc.and_(*both))
        if release == "bookworm":
            mask = random.random(len(nodes)) < 0.3
            gone = nodes.filter(pa.array(mask)).select(["package", "section"])
            hidden = dict(zip(*(column.to_pylist() for column in gone.columns), strict=True))
            sections = pc.if_else(pa.array(mask), None, nodes["section"])
            nodes = nodes.set_column(nodes.column_names.index("section"), "section", sections)
        else:
            nodes = nodes.drop_columns(["section"])
        write_csv(nodes, f"{release}.csv")
        write_csv(edges, f"{release}-needs.csv")
    return hidden


@pytest.mark.parametrize(
    ("count", "epochs", "least"),
    [(2000, 40, (0.6, 0.6)), pytest.param(None, 60, (0.82, 0.85), marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def test_six_commands(run, debian: Path, count: int | None, epochs: int, least) -> None:
    hidden = write_tables(debian, count)
    columns = ("--id", "package", "--label", "section", "--kind", "kind")
    run("import", "bookworm.csv", "bookworm-needs.csv", *columns, "--out", "debian")
    assert "contrary" in run("analyze", "debian", "--out", "report")
    run("train", "debian", "--model", "tuned-sage", "--set", f"epochs={epochs}", "--refit")
    run("predict", "latest", "--only", "unlabeled", "--out", "answers.parquet")
    new = ("--nodes", "trixie.csv", "--edges", "trixie-needs.csv")
    run("predict", "latest", *new, "--out", "new.csv")
    told = json.loads(run("explain", "latest", next(iter(hidden)), "--json"))
    assert told["answer"]["id"] == next(iter(hidden))

    answers = pq.read_table("answers.parquet").to_pylist()
    assert {row["id"] for row in answers} == set(hidden)
    right = np.mean([row["predicted"] == hidden[row["id"]] for row in answers])
    assert right > least[0]
    known = set(read_csv("bookworm.csv")["package"].to_pylist())
    later = [name for name in read_csv("trixie.csv")["package"].to_pylist() if name not in known]
    found = read_csv("new.csv")
    assert found["id"].to_pylist() == later
    truth = pq.read_table(debian / "trixie" / "packages.parquet", columns=["package", "section"])
    section = dict(zip(*(truth[one].to_pylist() for one in truth.column_names), strict=True))
    given = zip(found["id"].to_pylist(), found["predicted"].to_pylist(), strict=True)
    assert np.mean([section[name] == answer for name, answer in given]) > least[1]
