"""The registry of the families, by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ncgnn.data._arrays import SHIPPED_SPLITS
from ncgnn.data.splits._drawn import draw_paper, draw_planetoid, draw_stratified, draw_uniform
from ncgnn.data.splits._shipped import shipped_indices, shipped_masks, ships
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ncgnn.data.splits._request import Parts, SplitRequest

_DRAWN = ("stratified", "paper", "uniform", "planetoid")


@dataclass(frozen=True)
class Family:
    """A rule that makes splits.

    Attributes:
        make: Turns a request into the three parts.
        summary: One line for people.
        takes_fractions: Whether the sizes of the parts may be chosen.
    """

    make: Callable[[SplitRequest], Parts]
    summary: str
    takes_fractions: bool = False


def _published(request: SplitRequest) -> Parts:
    if ships(request, "published"):
        return shipped_masks(request, "published")
    others = [name for name in ("planetoid", "uniform") if ships(request, name)]
    also = f"it ships {' and '.join(map(repr, others))}, and " if others else ""
    drawn = [name for name in _DRAWN if name not in others and _can_be_made(request, name)]
    raise InputError(
        f"this graph ships no published masks ({', '.join(SHIPPED_SPLITS['published'])}); "
        f"{also}families {', '.join(map(repr, drawn))} can be drawn on it."
    )


def _can_be_made(request: SplitRequest, name: str) -> bool:
    try:
        return FAMILIES[name].make(replace(request, family=name)).train.size > 0
    except InputError:
        return False


def _planetoid(request: SplitRequest) -> Parts:
    if ships(request, "planetoid"):
        return shipped_indices(request, "planetoid")
    return draw_planetoid(request)


def _uniform(request: SplitRequest) -> Parts:
    if ships(request, "uniform"):
        return shipped_indices(request, "uniform")
    return draw_uniform(request)


FAMILIES: dict[str, Family] = {
    "paper": Family(draw_paper, "the same number of training nodes from every class"),
    "stratified": Family(draw_stratified, "60/20/20 within every class", takes_fractions=True),
    "published": Family(_published, "the masks that the graph's authors publish"),
    "planetoid": Family(_planetoid, "20 per class to train on, 500 validation, 1000 test"),
    "uniform": Family(_uniform, "60/20/20 without regard to class", takes_fractions=True),
}
