"""Typed options, shared by Python, TOML and the command line."""

from __future__ import annotations

from types import NoneType
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator
from pydantic_core import to_jsonable_python

_TOO_LARGE = 1 << 63


class Options(BaseModel):
    """Immutable options, described by the docstrings of their fields.

    Unknown names are rejected, and so is whatever is not a number where one is expected. Where an
    option may have no value, the word ``none`` says so, as TOML has no other way.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, use_attribute_docstrings=True
    )

    @field_validator("*", mode="before")
    @classmethod
    def _reject_non_numbers(cls, value: Any, info: ValidationInfo) -> Any:
        kinds = _plain_types(cls.model_fields[str(info.field_name)].annotation)
        if NoneType in kinds and isinstance(value, str) and value == "none":
            return None
        if kinds & {int, float} and kinds <= {int, float, NoneType}:
            given: list[Any] = [*value] if isinstance(value, list | tuple) else [value]
            if any(isinstance(one, bool | str) for one in given):
                raise ValueError("must be a number")
            whole = [one for one in given if isinstance(one, int)]
            if float not in kinds and any(abs(one) >= _TOO_LARGE for one in whole):
                raise ValueError("must be a number that 64 bits can hold")
        return value


class AddedLater:
    """Marks an option that is younger than stored runs: ``Annotated[bool, AddedLater] = False``.

    At its default it is no part of what names a run, so that runs keep the names that they had
    before the option was there.
    """


def later_defaults(kind: type[BaseModel]) -> dict[str, Any]:
    """The defaults, as JSON has them, of the options of a kind that were added later."""
    return {
        name: to_jsonable_python(field.get_default(call_default_factory=True, validated_data={}))
        for name, field in kind.model_fields.items()
        if AddedLater in field.metadata
    }


def _plain_types(annotation: Any) -> set[type]:
    """The types that an annotation is made of; literal values are none."""
    inner = get_args(annotation)
    if inner:
        return set[type]().union(*map(_plain_types, inner))
    return {annotation} if isinstance(annotation, type) else set()
