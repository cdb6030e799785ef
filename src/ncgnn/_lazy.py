"""Names that are imported when they are first used, so that importing the package stays fast."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazy_exports(
    package: str, exports: Mapping[str, str], submodules: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make a module's ``__getattr__`` and ``__dir__`` (PEP 562).

    Args:
        package: Name of the module.
        exports: For each name the module that holds it.
        submodules: Names of submodules that are imported on use.
    """

    def load(name: str) -> Any:
        if name in submodules:
            return import_module(f"{package}.{name}")
        if name not in exports:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(exports[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def listing() -> list[str]:
        return sorted(set(vars(sys.modules[package])) | set(exports) | set(submodules))

    return load, listing
