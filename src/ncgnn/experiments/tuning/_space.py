"""What is searched: values by option, and what a choice of them means to a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ncgnn.errors import InputError
from ncgnn.training import search_space
from ncgnn.training._presets import placed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

#: What a search cannot choose, and the option that says it.
_SAID_ELSEWHERE = {
    "data.dataset": "--dataset",
    "data.split": "--split",
    "model.name": "--model",
    "training.seed": "--seeds",
    "data.split_seed": "--set split_seed=…",
    "training.device": "--device",
}


@dataclass(frozen=True)
class SearchSpace:
    """Values to choose from.

    Attributes:
        values: By ``section.option``. A list of lists is an option with one value per group of
            nodes, and each group's value is chosen on its own.
    """

    values: dict[str, list[Any]]

    @property
    def choices(self) -> dict[str, list[Any]]:
        """Values by parameter; the groups of one option are ``option.0``, ``option.1``, …."""
        found: dict[str, list[Any]] = {}
        for option, values in self.values.items():
            if _is_grouped(values):
                found |= {f"{option}.{group}": list(own) for group, own in enumerate(values)}
            else:
                found[option] = list(values)
        return found

    @property
    def first(self) -> dict[str, Any]:
        """The first value of every parameter."""
        return {name: values[0] for name, values in self.choices.items()}

    def holds(self, settings: Mapping[str, Any]) -> bool:
        """Whether settings by option, as a configuration has them, are among the values."""
        return all(_holds(values, settings[option]) for option, values in self.values.items())

    def settings(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """A choice by parameter as settings by option, the groups of an option in one list."""
        return {
            option: [chosen[f"{option}.{group}"] for group in range(len(values))]
            if _is_grouped(values)
            else chosen[option]
            for option, values in self.values.items()
        }


def _holds(values: list[Any], value: Any) -> bool:
    several = cast("list[Any]", value) if isinstance(value, list) else [value]
    if _is_grouped(values):
        return len(several) == len(values) and all(
            one in own for one, own in zip(several, values, strict=True)
        )
    return value in values or all(one in values for one in several)


def make_space(
    model: str, given: Mapping[str, Any], fixed: Collection[str], where: str = "search space"
) -> SearchSpace:
    """The shipped values of a model, with those given here in place of theirs or beside them.

    Args:
        model: Name.
        given: More values by ``section.option``, or by option where that is clear; an empty list
            takes an option out of the search.
        fixed: Settings that are not to be searched, as ``make_config`` takes them.
        where: Begins an error.

    Raises:
        InputError: Nothing is left to search, or what is given is no list of values.
    """
    space: dict[str, list[Any]] = {
        option: values
        for option, values in search_space(model).items()
        if not _is_fixed(option, fixed)
    }
    for key, values in given.items():
        option = ".".join(placed(key))
        if option in _SAID_ELSEWHERE:
            raise InputError(
                f"{where}: {option} cannot be searched; {_SAID_ELSEWHERE[option]} says it."
            )
        if _is_fixed(option, fixed):
            raise InputError(f"{where}: {option} has a fixed value and is searched; remove one.")
        _check_values(option, values, where)
        space[option] = values
    space = {option: values for option, values in space.items() if values}
    if not space:
        raise InputError(
            f"{where}: there is nothing to search for {model}; give values, like "
            "learning_rate = [0.01, 0.1] under [search.training]."
        )
    return SearchSpace(space)


def _check_values(option: str, values: Any, where: str) -> None:
    grouped = isinstance(values, list) and _is_grouped(values)
    for own in values if grouped else [values]:
        if not isinstance(own, list):
            raise InputError(f"{where}: {option} must be a list of values, like [0.1, 0.2].")
        if grouped and not own:
            raise InputError(f"{where}: {option} gives a group no values; give each group some.")
        if not all(isinstance(value, bool | int | float | str) for value in own):
            raise InputError(
                f"{where}: {option} must list numbers, words or booleans, or one such list per "
                "group of nodes."
            )
        if len(set(own)) < len(own):
            raise InputError(f"{where}: {option} lists a value twice.")


def _is_grouped(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(own, list) for own in values)


def _is_fixed(option: str, fixed: Collection[str]) -> bool:
    return option in fixed or option.partition(".")[2] in fixed
