"""``ncgnn models``."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from ncgnn.cli import app
from ncgnn.nn import model_class, model_names
from ncgnn.paper import published


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch):
    runner = CliRunner()

    def invoked(*words: str, columns: int = 80):
        monkeypatch.setenv("COLUMNS", str(columns))
        return runner.invoke(app, ["models", *words])

    return invoked


@pytest.mark.parametrize("columns", [80, 120])
def test_the_list_names_every_model_within_the_terminal(run, columns: int) -> None:
    done = run(columns=columns)
    assert done.exit_code == 0, done.output
    implemented, _, rest = done.stdout.partition("Not implemented")
    for name in model_names():
        assert f" {name} " in implemented
        assert model_class(name).title in implemented
    for name, about in published("listed").items():
        assert f" {name} " in rest
        assert about["title"] in rest
    assert max(map(len, done.stdout.splitlines())) <= columns
    assert "coauthor-physics 97.22" in rest
    assert "…" not in done.stdout
    # A narrow terminal may part venue and year.
    for whole in ("arXiv:2306.02285", "Mathematics", *(["ICLR 2017"] if columns > 80 else [])):
        assert whole in done.stdout


def test_the_list_as_json(run) -> None:
    rows = json.loads(run("--json").stdout)["models"]
    assert [row["name"] for row in rows] == [*model_names(), *published("listed")]
    by_name = {row["name"]: row for row in rows}
    assert by_name["gcn"] == {
        "name": "gcn",
        "title": "GCN",
        "family": "spatial",
        "memory": "nodes × hidden",
        "edges": "incoming",
        "edge_weights": True,
        "paper": model_class("gcn").paper,
        "implemented": True,
        "published": {},
    }
    assert by_name["snowball"]["implemented"] is False
    assert by_name["snowball"]["memory"] is None
    assert by_name["snowball"]["edges"] is None
    assert by_name["snowball"]["published"] == {"pubmed": 89.04, "actor": 36.0}


@pytest.mark.parametrize("name", model_names())
def test_every_option_of_one_model_is_explained(run, name: str) -> None:
    done = run(name, "--json")
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)["models"]
    options = {option["name"]: option for option in row["options"]}
    assert list(options) == list(model_class(name).Options.model_fields)
    for option in options.values():
        assert option["meaning"], option
        assert option["type"], option
        assert not option["required"]
    if "hidden" in options:
        assert options["hidden"]["default"] == 512
    shown = run(name).stdout
    for text in (model_class(name).title, model_class(name).family, *options):
        assert text in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown


def test_details_of_a_model_with_presets(run) -> None:
    (row,) = json.loads(run("tuned-gcn", "--json").stdout)["models"]
    assert row["presets"]["datasets"][:2] == ["pubmed", "photo"]
    assert "actor" not in row["presets"]["datasets"]
    assert row["presets"]["row_scaled"][0] == "photo"
    assert row["presets"]["every_graph"]["training"]["patience"] == 500
    norm = next(option for option in row["options"] if option["name"] == "norm")
    assert (norm["type"], norm["default"]) == ("layer, batch, none", "layer")
    shown = run("tuned-gcn", columns=120).stdout
    assert "patience=500" in shown
    assert "own values for: pubmed, photo" in shown
    assert "arXiv:2406.08993" in shown


def test_scaling_of_features_is_not_a_value_of_the_model(run) -> None:
    (row,) = json.loads(run("hog", "--json").stdout)["models"]
    assert row["presets"]["datasets"] == ["pubmed", "actor", "texas"]
    assert row["presets"]["row_scaled"] == ["pubmed", "photo", "computers", "actor"]
    shown = run("gbksage", columns=120).stdout
    assert "own values" not in shown
    assert "features scaled by row for: pubmed, photo, computers, actor" in shown


def test_a_model_that_is_not_implemented(run) -> None:
    done = run("exphormer")
    assert done.exit_code == 0, done.output
    assert "not implemented" in done.stdout
    assert "computers 91.47" in done.stdout
    assert "Options" not in done.stdout


@pytest.mark.parametrize(
    ("name", "hint"), [("tuned-gcm", "did you mean tuned-gcn"), ("exformer", "exphormer")]
)
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_unknown_names_give_one_clear_line(run, name: str, hint: str, more: list[str]) -> None:
    done = run(name, *more)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: unknown model '{name}'; ")
    assert hint in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not done.stdout


def test_help_lists_the_command() -> None:
    shown = CliRunner().invoke(app, ["--help"]).stdout
    assert "List the known models" in shown
