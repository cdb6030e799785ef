"""Separated learning for graphs with confused nodes."""

from ncgnn._version import __version__

__all__ = ["__version__"]
