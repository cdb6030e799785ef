"""Values that no parser expects end in one line, whatever they break inside."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from ncgnn._io import as_path
from ncgnn.cli import app
from ncgnn.errors import InputError

DIGITS, BRACKETS = "9" * 5001, "[" * 3000
WRONG = {
    "a number of 5,001 digits": (
        ["--set", f"hidden={DIGITS}"],
        "hidden must be a number; got '999",
    ),
    "3,000 brackets": (["--set", f"hidden={BRACKETS}"], "hidden must be a number; got '["),
    "more than 64 bits": (["--set", f"hidden={'9' * 20}"], "a number that 64 bits can hold"),
    "a layer that no machine holds": (["--set", "hidden=2000000"], "less than or equal to 1048576"),
    "many layers": (["--set", "layers=1001"], "less than or equal to 1000"),
    "seeds of 5,001 digits": (["--seeds", DIGITS], "--seeds must be at most 10,000; got 9999"),
    "a list of such seeds": (["--seeds", f"1,{DIGITS}"], "--seeds must be different whole numbers"),
    "many seeds": (["--seeds", "100000000"], "--seeds must be at most 10,000; got 100000000."),
    "a device without numbers": (["--device", "meta"], "device 'meta' is not available"),
    "runs in nobody's home": (["--runs", "~nobody-of-this-name/x"], "there is no such user"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_values_are_one_short_line(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options, words = WRONG[case]
    done = CliRunner().invoke(app, ["train", "digits", "--model", "tuned-gcn", *options])
    assert done.exit_code == 2
    said = " ".join(done.output.split())
    assert words in said
    assert len(said) < 700
    assert done.exception is None or isinstance(done.exception, SystemExit)


def test_data_in_nobodys_home():
    done = CliRunner().invoke(app, ["analyze", "cora", "--data-dir", "~nobody-of-this-name/x"])
    assert done.exit_code == 2
    assert "there is no such user" in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("text", "words"),
    [(f"a = {DIGITS}", "Exceeds the limit"), (f"a = {BRACKETS}", "nested too deeply")],
)
def test_a_file_of_options_that_python_cannot_parse(text, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(text)
    done = CliRunner().invoke(app, ["train", "digits", "--config", "mine.toml"])
    assert done.exit_code == 2
    assert "mine.toml: not a readable TOML file" in " ".join(done.output.split())
    assert words in done.output


@pytest.mark.parametrize("name", [None, 3, "a\0b", "~nobody-of-this-name/x", b"bytes"])
def test_what_is_no_path(name):
    with pytest.raises(InputError):
        as_path(name)
