"""Mistakes in a command line as one line."""

from __future__ import annotations

import sys
from typing import Any

from typer.core import TyperGroup


class OneLineGroup(TyperGroup):
    """Commands whose mistakes in use are told like all others: ``error:`` and a sentence."""

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run a command; as a program of its own, exit with its code."""
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **extra)
        try:
            code = super().main(*args, standalone_mode=False, **extra)
        except Exception as error:  # Typer's own have no name that all its versions share
            message = getattr(error, "format_message", None)
            if message is None:
                raise
            context = getattr(error, "ctx", None)
            if not message():  # no command was given, and the help was printed
                sys.exit(2)
            command = context.command_path if context else "ncgnn"
            text = str(message()).rstrip(".").replace("\n", " ").replace(": Value error,", ":")
            text += " " if text.endswith("?") else "; "
            print(f"error: {text}'{command} --help' lists what there is.", file=sys.stderr)
            sys.exit(getattr(error, "exit_code", 2))
        sys.exit(code if isinstance(code, int) else 0)
