"""The rows of the paper's main table: models, and NCGCN with a part taken away."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ncgnn.errors import UnknownNameError

if TYPE_CHECKING:
    from ncgnn.experiments._request import Request
    from ncgnn.training import RunConfig


@dataclass(frozen=True)
class Variant:
    """A row of a table.

    Attributes:
        name: As ``--models`` knows it.
        title: As the paper calls it.
        model: The model that is trained.
        options: How it differs from the model's preset.
    """

    name: str
    title: str
    model: str
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def config(self, request: Request, dataset: str, seed: int) -> RunConfig:
        """The run of this row on a data set."""
        return request.config(dataset, self.model, seed, **self.options)


ABLATIONS = (
    Variant("without-separation", "w/o Separ.", "ncgcn", {"model.separation": "none"}),
    Variant(
        "without-message-separation",
        "w/o Mess. Separ.",
        "ncgcn",
        {"model.separation": "target-only"},
    ),
    Variant(
        "nh-separation",
        "NH Separ.",
        "ncgcn",
        {"model.guidance": "nh", "model.threshold": 0.5},
    ),
    Variant("three-hops", "NCGCN (k=3)", "ncgcn", {"model.hops": 3}),
)
_BY_NAME = {variant.name: variant for variant in ABLATIONS}


def variants(names: tuple[str, ...]) -> list[Variant]:
    """Rows by name: models of the registry and ablations.

    Raises:
        UnknownNameError: A name is neither.
    """
    from ncgnn.nn._catalog import BY_NAME

    known = [name for name, entry in BY_NAME.items() if entry.place is not None]
    found: list[Variant] = []
    for name in names:
        if name in _BY_NAME:
            found.append(_BY_NAME[name])
        elif name in known:
            found.append(Variant(name, BY_NAME[name].title, name))
        else:
            raise UnknownNameError("model", name, [*known, *_BY_NAME])
    return found
