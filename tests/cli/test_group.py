"""Mistakes in a command line are one line, whoever finds them."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from ncgnn.cli import app
from ncgnn.cli.options import _FAMILIES, _METRICS
from ncgnn.cli.terminal import read_settings
from ncgnn.data import split_families
from ncgnn.errors import InputError
from ncgnn.training import METRICS


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trian"], "error: No such command 'trian'. Did you mean 'train'? See 'ncgnn --help'."),
        (["train", "--dataste", "x"], "error: No such option: --dataste"),
        (["tune", "--trials", "0"], "error: Invalid value for '--trials'"),
        (["sweep", "--engine", "abacus"], "'abacus' is not one of 'local', 'ray'"),
        (["analyze"], "error: Missing argument 'GRAPH'; see 'ncgnn analyze --help'."),
    ],
)
def test_a_mistake_is_one_line(arguments, words):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


def test_without_a_command_the_help_is_shown():
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 2
    assert "Usage: ncgnn" in result.output
    assert "error:" not in result.output


def test_codes_of_commands_reach_the_shell():
    assert CliRunner().invoke(app, ["--version"]).exit_code == 0
    assert CliRunner().invoke(app, ["models", "nosuch"]).exit_code == 2


def test_help_is_wrapped_by_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert (
        "sections search.training, search.model and search.data of a TOML file change them."
        in CliRunner().invoke(app, ["tune", "--help"]).stdout
    )


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("train tex", ["texas"]),
        ("train digits --models ncgcn,gc", ["ncgcn,gcn", "ncgcn,gcnii"]),
        ("split digits --split p", ["paper", "published", "planetoid"]),
        ("tune digits --metric m", ["macro_f1"]),
        ("reproduce gr", ["groups"]),
    ],
)
def test_the_shell_completes_names_and_lists(words, found):
    told = {"_NCGNN_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    told["_TYPER_COMPLETE_ARGS"] = f"ncgnn {words}"
    assert CliRunner().invoke(app, [], env=told, prog_name="ncgnn").stdout.split() == found


def test_options_of_a_model_may_have_names_of_others():
    assert read_settings(["model.seed=3"], seed=["5"]) == {"model.seed": 3}
    for setting, given in (
        ("seed=3", {"seed": ["5"]}),
        ("training.metric=accuracy", {"metric": "macro_f1"}),
        ("fractions=0.7,0.1,0.2", {"fractions": "0.8,0.1,0.1"}),
    ):
        with pytest.raises(InputError, match="contradict each other"):
            read_settings([setting], **given)


def test_names_that_help_repeats_are_all_there_are():
    assert set(_METRICS) == set(METRICS)
    assert set(_FAMILIES) == set(split_families())
