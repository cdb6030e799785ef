"""Search spaces: fixed settings, values to choose from, and the choice of every trial."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution

from ncgnn.errors import InputError, NcgnnError
from ncgnn.experiments.cells import importable_class
from ncgnn.experiments.results import flatten
from ncgnn.experiments.sweeps import seed_list
from ncgnn.nn import model_class
from ncgnn.training import (
    RunConfig,
    edges_of_tables,
    find_option,
    make_config,
    naming_options,
    read_config_file,
    read_toml,
    search_space,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from optuna.trial import FrozenTrial

    from ncgnn.nn import Model

#: Options that cannot be searched, and what sets them instead.
_SET_ELSEWHERE = {
    "data.dataset": "GRAPH",
    "data.split": "--split",
    "model.name": "--model",
    "training.seed": "--seeds",
    "training.metric": "--metric",
    "data.split_seed": "--set split_seed=…",
    "data.fractions": "--fractions",
    "training.device": "--device",
}
_SEED = ("seed", "training.seed")
#: How often the estimator is asked before an untried choice is drawn at random.
_PROPOSALS = 20
#: Spaces up to this size are listed in full to find untried choices.
_LISTED = 100_000


@dataclass(frozen=True)
class Search:
    """A parameter search.

    Attributes:
        fixed: Settings of all trials, as ``make_config`` takes them.
        values: Values to choose from, by ``section.option``. A list of lists is an option with one
            value per group of nodes, and each group's value is chosen on its own.
        seeds: Every trial is trained with each of them.
        model: The class of a model of one's own, for processes that do not know it yet.
    """

    fixed: dict[str, Any]
    values: dict[str, list[Any]]
    seeds: tuple[int, ...]
    model: type[Model] | None = None

    @cached_property
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
    def size(self) -> int:
        """The number of different choices."""
        return prod(len(values) for values in self.choices.values())

    def settings(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """A choice by parameter as settings by option, the groups of an option in one list."""
        return {
            option: [chosen[f"{option}.{group}"] for group in range(len(values))]
            if _is_grouped(values)
            else chosen[option]
            for option, values in self.values.items()
        }

    def config(self, chosen: Mapping[str, Any], seed: int) -> RunConfig:
        """The configuration of one run of a trial."""
        return make_config(seed=seed, settings=self.fixed | self.settings(chosen))

    def first_config(self, seed: int) -> RunConfig:
        """The configuration with the first value of every parameter."""
        return self.config({name: values[0] for name, values in self.choices.items()}, seed)

    @cached_property
    def base(self) -> RunConfig:
        """The configuration with the first value of everything and the first seed."""
        return self.first_config(self.seeds[0])

    @property
    def metric(self) -> str:
        """The validation score that trials are compared by."""
        return self.base.training.metric

    @property
    def preset(self) -> dict[str, Any]:
        """The preset's values of the searched parameters, where they are among the choices."""
        tables = make_config(seed=self.seeds[0], settings=self.fixed).model_dump(mode="json")
        found: dict[str, Any] = {}
        for name, values in self.choices.items():
            section, option, *group = name.split(".")
            value = tables[section].get(option)
            if isinstance(value, list) and group:
                several = cast("list[Any]", value)
                value = several[int(group[0])] if int(group[0]) < len(several) else None
            elif isinstance(value, list) and len(set(cast("list[Any]", value))) == 1:
                value = value[0]  # one value for all groups
            if value in values:
                found[name] = value
        return found

    def can_choose(self, config: RunConfig) -> bool:
        """Whether some choice of this search is that run."""
        tables = config.model_dump(mode="json")
        places = {option: option.split(".") for option in self.values}
        chosen = {key: tables[section].get(option) for key, (section, option) in places.items()}
        if not all(_holds(values, chosen[option]) for option, values in self.values.items()):
            return False
        again = make_config(seed=config.training.seed, settings=self.fixed | chosen)
        return again.name == config.name

    def study_name(self, graph_sha256: str, split_sha256: Sequence[str]) -> str:
        """The name of the study; equal searches on equal graphs and splits have equal names."""
        config, tables = self.base, naming_options(self.base.model_dump(mode="json"))
        dataset = config.data.dataset
        graph = Path(dataset).stem if dataset.endswith(".npz") else dataset
        tables["data"]["dataset"] = graph
        about = {
            "graph": graph_sha256,
            "splits": list(split_sha256),
            "config": tables,
            "space": self.values,
            "seeds": self.seeds,
        }
        digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
        shown = re.sub(r"[^\w.-]", "_", graph) or "graph"
        return f"tune-{shown}-{config.model.name}-{config.data.split}-{digest[:10]}"

    def propose(
        self, study: optuna.Study, trials: Sequence[FrozenTrial], number: int, place: int
    ) -> dict[str, Any]:
        """Values for a trial that no other one has, where there are any left.

        The first trial takes the preset's values. Then the tree-structured Parzen estimator
        proposes; with few values to choose from it often proposes what it has seen. In that case
        it is asked again with other random numbers, and in the end an untried choice is drawn.

        Args:
            study: With the trials so far.
            trials: All of them.
            number: The trial that needs values.
            place: Its place among trials without retries; all random numbers depend on it.
        """
        tried = {
            self._point(trial.params)
            for trial in trials
            if trial.number != number and trial.params.keys() >= self.choices.keys()
        }
        kinds = {name: CategoricalDistribution(values) for name, values in self.choices.items()}
        seed, proposed = (self.seeds[0], place), dict[str, Any]()
        for attempt in range(_PROPOSALS):
            more = (attempt,) if attempt else ()
            sampler = optuna.samplers.TPESampler(seed=_hash_seed(*seed, *more))
            proposed = {
                name: sampler.sample_independent(study, trials[number], name, kind)
                for name, kind in kinds.items()
            }
            if self._point(proposed) not in tried:
                return proposed if tried else proposed | self.preset
        return self._draw(tried, _hash_seed(*seed, _PROPOSALS)) or proposed

    def _point(self, params: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(params[name] for name in self.choices)

    def _draw(self, tried: Collection[tuple[Any, ...]], seed: int) -> dict[str, Any]:
        """An untried choice, each with the same chance; empty if all were tried."""
        random, choices = np.random.default_rng(seed), self.choices
        if self.size <= _LISTED:
            left = [one for one in product(*choices.values()) if one not in tried]
            return dict(zip(choices, left[random.integers(len(left))], strict=True)) if left else {}
        while True:  # far more choices than trials: the first is untried almost surely
            drawn = {name: values[random.integers(len(values))] for name, values in choices.items()}
            if self._point(drawn) not in tried:
                return drawn


def _hash_seed(*seed: int) -> int:
    return int(np.random.SeedSequence(seed).generate_state(1)[0])


def _holds(values: list[Any], value: Any) -> bool:
    """Whether the value of an option, as a configuration has it, is among those to choose from."""
    several = cast("list[Any]", value) if isinstance(value, list) else [value]
    if _is_grouped(values):
        return len(several) == len(values) and all(
            one in own for one, own in zip(several, values, strict=True)
        )
    return value in values or all(one in values for one in several)


def _is_grouped(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(own, list) for own in values)


def make_search(
    *,
    dataset: str | None = None,
    model: str | type[Model] | None = None,
    split: str | None = None,
    device: str | None = None,
    config: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    search: Mapping[str, Any] | None = None,
    seeds: int | Sequence[int] | None = None,
) -> Search:
    """Make a search of the arguments of :func:`ncgnn.experiments.tune`.

    Fixed values have the precedence of :func:`ncgnn.training.make_config`.

    Raises:
        InputError: Says what is wrong with a fixed or a searched value.
    """
    base = make_config(
        dataset=dataset, model=model, split=split, device=device, config=config, settings=settings
    )
    name = base.model.name
    fixed, values = ({}, {}) if config is None else _read_file(config, name)
    fixed |= {"data.dataset": base.data.dataset, "model.name": name}
    named = {"data.split": split, "training.device": device}
    fixed |= {key: value for key, value in named.items() if value is not None}
    fixed |= dict(settings or {}) | {"data.dataset": base.data.dataset}
    if seeds is not None and any(key in (settings or {}) for key in _SEED):
        raise InputError("seeds and the setting training.seed contradict each other; give one.")
    numbers = (base.training.seed,) if seeds is None else seed_list(seeds)
    fixed = {key: value for key, value in fixed.items() if key not in _SEED}
    where = "search space" if config is None else f"{config}, search"
    known = search_space(name, edges_of_tables(base.data.dataset))
    values = _merge_values(known, name, values | dict(search or {}), fixed, where)
    made = Search(fixed, values, numbers, importable_class(name))
    first = {parameter: values[0] for parameter, values in made.choices.items()}
    for parameter, values in made.choices.items():
        for value in values:
            try:
                made.config(first | {parameter: value}, numbers[0])
            except NcgnnError as error:
                text = str(error).removeprefix("configuration: ").removeprefix("--set ")
                raise InputError(f"{where}: {text}") from None
    return made


def _read_file(path: Path, model: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fixed settings and values to search from a TOML file."""
    known = ", ".join(RunConfig.model_fields)
    tables: Any = read_toml(path).get("search", {})
    if not isinstance(tables, dict):
        raise InputError(f"{path}: search must hold sections; known: {known}.")
    for section, options in cast("dict[str, Any]", tables).items():
        if section not in RunConfig.model_fields or not isinstance(options, dict):
            raise InputError(f"{path}, search: there is no section [{section}]; known: {known}.")
    searched = flatten(cast("dict[str, Any]", tables))
    fixed = flatten(read_config_file(path).tables)
    if fixed.get("model.name", model) != model:  # the file's options of another model
        fixed, searched = (
            {key: value for key, value in one.items() if not key.startswith("model.")}
            for one in (fixed, searched)
        )
    return fixed, searched


def _merge_values(
    known: Mapping[str, list[Any]],
    model: str,
    given: Mapping[str, Any],
    fixed: Collection[str],
    where: str,
) -> dict[str, list[Any]]:
    """The known values of a model, replaced and completed by given ones; an empty list is none.

    Raises:
        InputError: Nothing is left to search, or what is given is no list of values.
    """

    def is_fixed(option: str) -> bool:
        return option in fixed or option.partition(".")[2] in fixed

    found = {key: values for key, values in known.items() if not is_fixed(key)}
    for key, values in given.items():
        option = ".".join(find_option(key))
        if option in _SET_ELSEWHERE:
            raise InputError(
                f"{where}: {option} cannot be searched; set it with {_SET_ELSEWHERE[option]}."
            )
        if is_fixed(option):
            raise InputError(f"{where}: {option} has a fixed value and is searched; remove one.")
        _check_values(f"{where}: {option}", values)
        found[option] = values
    found = {option: values for option, values in found.items() if values}
    if not found:
        if not model_class(model).Options.model_fields:
            raise InputError(f"{where}: there is nothing to search for {model}: it has no options.")
        raise InputError(
            f"{where}: there is nothing to search for {model}; give values, like "
            "learning_rate = [0.01, 0.1] under [search.training]."
        )
    return found


def _check_values(where: str, values: Any) -> None:
    grouped = isinstance(values, list) and _is_grouped(values)
    for own in values if grouped else [values]:
        if not isinstance(own, list):
            raise InputError(f"{where} must be a list of values, like [0.1, 0.2]; got {own!r}.")
        if grouped and not own:
            raise InputError(f"{where} gives a group no values; give each group some.")
        if not all(isinstance(value, bool | int | float | str) for value in own):
            raise InputError(
                f"{where} must list numbers, words or booleans, or one such list per group."
            )
        if len(set(own)) < len(own):
            raise InputError(f"{where} lists a value twice; remove one.")
