"""The command line."""

from ncgnn.cli.app import app, main

__all__ = ["app", "main"]
