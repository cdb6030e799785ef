"""TOML in and out, for nested tables of plain values."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from ncgnn.errors import InputError


def read_toml(path: Path | str) -> dict[str, Any]:
    """Read a TOML file; the error names the file and the place."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}; name a TOML configuration.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: not a readable TOML file ({error}).") from None


def to_toml(tree: dict[str, Any]) -> str:
    """Write a dictionary of tables of plain values; None is left out."""
    lines: list[str] = []
    for table, fields in tree.items():
        lines.append(f"[{table}]")
        lines += [f"{key} = {_value(value)}" for key, value in fields.items() if value is not None]
        lines.append("")
    return "\n".join(lines)


def read_setting(text: str) -> tuple[str, Any]:
    """Read ``key=value`` as the command line takes it: a value or values of TOML, or a word."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError(f"--set is '{text}'; give key=value, like training.epochs=200.")
    for text in (value, f"[{value}]") if "," in value else (value,):
        try:
            return key.strip(), tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            continue
    return key.strip(), value.strip()


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value)
