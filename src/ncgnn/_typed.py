"""What all typed options have in common."""

from __future__ import annotations

from types import NoneType
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator


class Typed(BaseModel):
    """Options that cannot be changed, know no other names and take nothing for a number but one.

    Where an option may have no value, the word ``none`` says so, as TOML has no other way.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _meant(cls, value: Any, info: ValidationInfo) -> Any:
        kinds = _plain_types(cls.model_fields[str(info.field_name)].annotation)
        if NoneType in kinds and isinstance(value, str) and value == "none":
            return None
        if kinds & {int, float} and kinds <= {int, float, NoneType}:
            given: list[Any] = [*value] if isinstance(value, list | tuple) else [value]
            if any(isinstance(one, bool | str) for one in given):
                raise ValueError("a number is wanted")
        return value


def _plain_types(annotation: Any) -> set[type]:
    """The types that an annotation is made of; literal values are none."""
    inner = get_args(annotation)
    if inner:
        return set[type]().union(*map(_plain_types, inner))
    return {annotation} if isinstance(annotation, type) else set()
