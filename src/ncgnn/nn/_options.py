"""Typed options of models, shared by Python, TOML and the command line."""

from __future__ import annotations

import difflib
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from ncgnn._typed import Typed
from ncgnn.errors import InputError
from ncgnn.nn._channels import Separation
from ncgnn.nn._grouping import GroupingRule, Guidance, ThresholdKind

Rate = Annotated[float, Field(ge=0, lt=1)]
Width = Annotated[int, Field(ge=1)]
OptionsKind = TypeVar("OptionsKind", bound="Options")


class Options(Typed):
    """Options of a model."""

    model_config = ConfigDict(validate_default=True)


#: What people call some options elsewhere.
_SHORT = {"lr": "learning_rate", "wd": "weight_decay", "epoch": "epochs", "num_layers": "layers"}


def complaint(error: ValidationError, kind: type[BaseModel] | None = None) -> str:
    """What is wrong with the first field that is wrong, with the names of ``kind`` it may mean."""
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return no_such_option(field, [] if kind is None else list(kind.model_fields))
    message = str(first["msg"]).removeprefix("Value error, ")
    given = "" if isinstance(first.get("input"), dict) else f" (it is {first.get('input')!r})"
    return f"{field}: {message}{given}." if field else f"{message}."


def no_such_option(field: str, known: list[str]) -> str:
    """A complaint of an unknown option, with the one that is meant or all that there are."""
    name = field.rpartition(".")[2]
    close = difflib.get_close_matches(_SHORT.get(name, name).replace("-", "_"), known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}."
    return f"{field}: there is no such option" + (f"; {hint}" if known else ".")


def checked(kind: type[OptionsKind], options: dict[str, Any], where: str = "") -> OptionsKind:
    """Options of a kind; the error names the first one that is wrong.

    Args:
        kind: What they are options of.
        options: The given ones.
        where: Put before the option's name in an error.
    """
    try:
        return kind(**options)
    except ValidationError as error:
        raise InputError(f"{where}{complaint(error, kind)}") from None


class SeparatedOptions(Options):
    """Options of NCGCN, NCSAGE and separated models with other backbones.

    Attributes:
        hidden: Width of both layers.
        separation: Which messages pass between groups; docs/training.md explains the modes.
        dropout: Rate after the first layer: one for all groups, or one per group, low NC first.
        readout_dropout: Rate before the last linear layer.
        self_loops: Whether every node is its own neighbour too.
        activation: Whether ReLU follows the second layer.
        hops: Size k of the neighbourhood in which NC is counted.
        threshold: NC above it is high; several ascending ones make more groups.
        threshold_kind: Whether a threshold is a value of NC or a quantile of it.
        guidance: Group by ``nc`` or, as the ablation, by ``nh``.
        known_labels: Whether training labels replace predictions when NC is estimated.
    """

    hidden: Width = 512
    separation: Separation = "renormalised"
    dropout: tuple[Rate, ...] = (0.5,)
    readout_dropout: Rate = 0.5
    self_loops: bool = True
    activation: bool = False
    hops: Annotated[int, Field(ge=1)] = 1
    threshold: tuple[Annotated[float, Field(ge=0, le=1)], ...] = (0.5,)
    threshold_kind: ThresholdKind = "value"
    guidance: Guidance = "nc"
    known_labels: bool = False

    @field_validator("threshold", "dropout", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, int | float) and not isinstance(value, bool) else value

    @model_validator(mode="after")
    def _one_rate_per_group(self) -> Self:
        if not self.threshold or list(self.threshold) != sorted(set(self.threshold)):
            raise ValueError("threshold: one number, or several ascending ones, are wanted")
        groups = len(self.threshold) + 1
        if len(self.dropout) == 1:
            object.__setattr__(self, "dropout", self.dropout * groups)
        if len(self.dropout) != groups:
            raise ValueError(
                f"dropout: {len(self.dropout)} rates for {groups} groups; give one per group"
            )
        return self

    @property
    def rule(self) -> GroupingRule:
        """How nodes are grouped."""
        return GroupingRule(
            self.hops, self.threshold, self.guidance, self.threshold_kind, self.known_labels
        )


class PlainOptions(Options):
    """Options of models without separation.

    Attributes:
        hidden: Width of the hidden layer.
        dropout: Rate after the hidden layer.
    """

    hidden: Width = 512
    dropout: Rate = 0.5


class ConvolutionOptions(PlainOptions):
    """Options of plain message-passing models.

    Attributes:
        self_loops: Whether every node is its own neighbour too.
    """

    self_loops: bool = True
