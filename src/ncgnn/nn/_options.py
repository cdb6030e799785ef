"""Typed options of models, shared by Python, TOML and the command line."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ncgnn.nn._channels import Separation
from ncgnn.nn._grouping import GroupingRule, Guidance, ThresholdKind

Rate = Annotated[float, Field(ge=0, lt=1)]
Width = Annotated[int, Field(ge=1)]


class Options(BaseModel):
    """Options that cannot be changed and know no other names."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


class SeparatedOptions(Options):
    """Options of NCGCN, NCSAGE and separated models with other backbones.

    Attributes:
        hidden: Width of both layers.
        separation: Which messages pass between groups; see :mod:`ncgnn.nn._channels`.
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
