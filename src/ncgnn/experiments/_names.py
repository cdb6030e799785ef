"""What people are told of a data set: its name, or as much of its path as it takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def short_names(datasets: Iterable[str]) -> dict[str, str]:
    """The ends of paths, as long as it takes to tell them apart."""
    paths = {name: Path(name).parts for name in datasets}
    names: dict[str, str] = {}
    for name, parts in paths.items():
        others = [one for one in paths.values() if one != parts]
        length = next(
            (n for n in range(1, len(parts)) if all(one[-n:] != parts[-n:] for one in others)),
            len(parts),
        )
        names[name] = str(Path(*parts[-length:])) if parts else name
    return names
