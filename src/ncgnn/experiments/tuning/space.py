"""What is searched: fixed settings, values by option and seeds, and the choice of every trial."""

from __future__ import annotations

import glob
import hashlib
import json
import re
from dataclasses import dataclass
from itertools import count, islice, product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution

from ncgnn.errors import InputError, NcgnnError
from ncgnn.experiments.grids import seed_list
from ncgnn.experiments.results import flat
from ncgnn.training import (
    RunConfig,
    make_config,
    placed,
    read_config_file,
    read_toml,
    search_space,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from optuna.trial import FrozenTrial

    from ncgnn.data import Split
    from ncgnn.graph import Graph
    from ncgnn.training import DataConfig


def fresh_seeds(used: tuple[int, ...], wanted: int | Sequence[int]) -> tuple[int, ...]:
    """Seeds that the search does not use; a number stands for the first so many."""
    if isinstance(wanted, int):
        if wanted < 0:
            raise InputError(f"evaluate_seeds is {wanted}; give a number from 0, or a list.")
        return tuple(islice((seed for seed in count() if seed not in used), wanted))
    if len(set(wanted)) < len(wanted) or min(wanted, default=0) < 0:
        raise InputError("evaluate_seeds must be different whole numbers from 0.")
    again = sorted(set(wanted) & set(used))
    if again:
        raise InputError(f"seed {again[0]} is used in the search; evaluate with other seeds.")
    return tuple(wanted)


def seen_share(
    graph: Graph, data: DataConfig, used: tuple[int, ...], fresh: tuple[int, ...]
) -> float | None:
    """The share of the fresh seeds' test nodes that train or validate with a tuning seed.

    Args:
        graph: The graph.
        data: Which split family, and whether the split has a seed of its own.
        used: Tuning seeds.
        fresh: Fresh seeds.

    Returns:
        The share; None if there are no such test nodes.
    """
    import numpy as np

    from ncgnn.data import make_split

    def drawn(seed: int) -> Split:
        own = data.split_seed
        return make_split(graph, data.split, seed if own is None else own, warn=False)

    known = np.zeros(graph.num_nodes, dtype=bool)
    for split in map(drawn, used):
        known[split.train] = known[split.val] = True
    tests = [drawn(seed).test for seed in fresh]
    nodes = np.concatenate(tests) if tests else np.empty(0, dtype=np.int64)
    return float(known[nodes].mean()) if nodes.size else None


def check_fresh_runs(runs: Path, plan: Plan, fresh: Iterable[int], graph: Graph) -> None:
    """Complain before a search if the winner may have to be a run that another graph has made.

    Args:
        runs: Folder of all runs.
        plan: What is searched.
        fresh: Fresh seeds.
        graph: The graph.

    Raises:
        InputError: Names such a run.
    """
    from ncgnn.training import ENVIRONMENT, RunFolder

    now = graph.fingerprint
    for seed in fresh:
        usual = plan.config(plan.space.first, seed)
        for path in sorted(runs.glob(f"{glob.escape(usual.name.rpartition('-')[0])}-*")):
            run = RunFolder(path)
            try:
                then = run.read_json(ENVIRONMENT).get("graph_sha256")
                may_be_ours = plan.may_choose(run.read_config())
            except InputError:  # a damaged run is trained again
                continue
            if then != now and may_be_ours:
                raise InputError(
                    f"{usual.data.dataset} has changed since {path} was trained, which this search "
                    "may choose; name another folder with --runs."
                )


#: What a search cannot choose, and the option that says it.
_SAID_ELSEWHERE = {
    "data.dataset": "GRAPH",
    "data.split": "--split",
    "model.name": "--model",
    "training.seed": "--seeds",
    "training.metric": "--metric",
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


@dataclass(frozen=True)
class Plan:
    """A parameter search.

    Attributes:
        fixed: Settings of all trials, as ``make_config`` takes them.
        space: What is searched.
        seeds: Every trial is trained with each of them.
    """

    fixed: dict[str, Any]
    space: SearchSpace
    seeds: tuple[int, ...]

    def config(self, chosen: Mapping[str, Any], seed: int) -> RunConfig:
        """The configuration of one run of a trial."""
        return make_config(seed=seed, settings=self.fixed | self.space.settings(chosen))

    @property
    def first(self) -> RunConfig:
        """The configuration with the first value of everything."""
        return self.config(self.space.first, self.seeds[0])

    @property
    def metric(self) -> str:
        """The validation score that trials are compared by."""
        return self.first.training.metric

    def may_choose(self, config: RunConfig) -> bool:
        """Whether some choice of this search is that run."""
        tables = config.model_dump(mode="json")
        places = {option: option.split(".") for option in self.space.values}
        chosen = {key: tables[section].get(option) for key, (section, option) in places.items()}
        if not self.space.holds(chosen):
            return False
        again = make_config(seed=config.training.seed, settings=self.fixed | chosen)
        return again.name == config.name

    @property
    def usual(self) -> dict[str, Any]:
        """What the preset says of the searched parameters, as far as that is among the choices."""
        config = make_config(seed=self.seeds[0], settings=self.fixed).model_dump(mode="json")
        found: dict[str, Any] = {}
        for name, values in self.space.choices.items():
            section, option, *group = name.split(".")
            value = config[section].get(option)
            if isinstance(value, list) and group:
                several = cast("list[Any]", value)
                value = several[int(group[0])] if int(group[0]) < len(several) else None
            elif isinstance(value, list) and len(set(cast("list[Any]", value))) == 1:
                value = value[0]  # one value for all groups
            if value in values:
                found[name] = value
        return found

    def study_name(self, graph_sha256: str, split_sha256: Sequence[str]) -> str:
        """The name of the study: equal plans for equal graphs have equal names.

        Args:
            graph_sha256: Hash of what the graph holds; where its file lies does not matter.
            split_sha256: Hashes of its splits, one per seed.
        """
        config = self.first
        tables = config.model_dump(mode="json")
        dataset = config.data.dataset
        graph = Path(dataset).stem if dataset.endswith(".npz") else dataset
        tables["data"]["dataset"] = graph
        about = {
            "graph": graph_sha256,
            "splits": list(split_sha256),
            "config": tables,
            "space": self.space.values,
            "seeds": self.seeds,
        }
        digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
        shown = re.sub(r"[^\w.-]", "_", graph) or "graph"
        return f"tune-{shown}-{config.model.name}-{config.data.split}-{digest[:10]}"


def make_plan(
    *,
    dataset: str | None = None,
    model: str | None = None,
    split: str | None = None,
    device: str | None = None,
    config: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    search: Mapping[str, Any] | None = None,
    seeds: int | Sequence[int] | None = None,
) -> Plan:
    """Put a plan together, with the precedence of :func:`ncgnn.training.make_config`.

    Args:
        dataset: Name or path of an npz file.
        model: Name.
        split: Split family.
        device: Where tensors live.
        config: TOML file with fixed values, and values to search under ``[search.training]``,
            ``[search.model]`` and ``[search.data]``.
        settings: More fixed values.
        search: More values to search, by ``section.option``.
        seeds: Every trial is trained with each of them; None stands for the one that the settings
            or the file name, or else 0.

    Raises:
        InputError: Says what is wrong with a fixed or a searched value.
    """
    base = make_config(
        dataset=dataset, model=model, split=split, device=device, config=config, settings=settings
    )
    fixed, searched = ({}, {}) if config is None else _read(config, base.model.name)
    fixed |= {"data.dataset": base.data.dataset, "model.name": base.model.name}
    named = {"data.split": split, "training.device": device}
    fixed |= {key: value for key, value in named.items() if value is not None}
    fixed |= dict(settings or {}) | {"data.dataset": base.data.dataset}
    tuning_seeds = _seeds(seeds, base, settings or {})
    fixed = {key: value for key, value in fixed.items() if key not in _SEED}
    where = "search space" if config is None else f"{config}, search"
    space = make_space(base.model.name, searched | dict(search or {}), fixed, where)
    plan = Plan(fixed, space, tuning_seeds)
    _check(plan, where)
    return plan


_SEED = ("seed", "training.seed")


def _seeds(
    given: int | Sequence[int] | None, base: RunConfig, settings: Mapping[str, Any]
) -> tuple[int, ...]:
    if given is None:
        return (base.training.seed,)
    if any(key in settings for key in _SEED):
        raise InputError("seeds and the setting training.seed contradict each other; give one.")
    return seed_list(given)


def _check(plan: Plan, where: str) -> None:
    """Complain of the first value that no configuration can have."""
    first = plan.space.first
    for name, values in plan.space.choices.items():
        for value in values:
            try:
                plan.config(first | {name: value}, plan.seeds[0])
            except NcgnnError as error:
                text = str(error).removeprefix("configuration: ").removeprefix("--set ")
                raise InputError(f"{where}: {text}") from None


def _read(path: Path, model: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fixed settings and values to search from a TOML file whose sections are in order."""
    searched = _dotted(read_toml(path).get("search", {}), f"{path}, search")
    fixed = flat(read_config_file(path).tables)
    if fixed.get("model.name", model) != model:
        # What the file says of one model means nothing to another.
        fixed = {key: value for key, value in fixed.items() if not key.startswith("model.")}
        searched = {key: value for key, value in searched.items() if not key.startswith("model.")}
    return fixed, searched


def _dotted(tree: Any, where: str) -> dict[str, Any]:
    known = ", ".join(RunConfig.model_fields)
    found: dict[str, Any] = {}
    if not isinstance(tree, dict):
        raise InputError(f"{where} must hold sections; known: {known}.")
    for section, options in cast("dict[str, Any]", tree).items():
        if section not in RunConfig.model_fields or not isinstance(options, dict):
            raise InputError(f"{where}: there is no section [{section}]; known: {known}.")
        found |= {f"{section}.{option}": value for option, value in options.items()}
    return found


Choices = dict[str, list[Any]]
#: So many proposals of the estimator are looked at before an untried choice is drawn at random.
_PROPOSALS = 20
#: Spaces up to this size are listed in full to find what is left of them.
_LISTED = 100_000


def propose(
    study: optuna.Study,
    trial: FrozenTrial,
    choices: Choices,
    tried: Collection[tuple[Any, ...]],
    seed: tuple[int, ...],
) -> dict[str, Any]:
    """Values for a trial that no other one has, where there are such.

    The tree-structured Parzen estimator proposes; with few values to choose from it often proposes
    what it has seen. Then it is asked again with other random numbers, and in the end an untried
    choice is drawn evenly.

    Args:
        study: With the trials so far.
        trial: The one that needs values.
        choices: Values by parameter.
        tried: Choices of other trials, in the order of ``choices``.
        seed: What all random numbers depend on.
    """
    distributions = {name: CategoricalDistribution(values) for name, values in choices.items()}
    proposed: dict[str, Any] = {}
    for attempt in range(_PROPOSALS):
        more = (attempt,) if attempt else ()
        sampler = optuna.samplers.TPESampler(seed=_number(*seed, *more))
        proposed = {
            name: sampler.sample_independent(study, trial, name, kind)
            for name, kind in distributions.items()
        }
        if point(proposed, choices) not in tried:
            return proposed
    return _drawn(choices, tried, _number(*seed, _PROPOSALS)) or proposed


def point(params: Mapping[str, Any], choices: Choices) -> tuple[Any, ...]:
    """A choice as something that can be compared."""
    return tuple(params[name] for name in choices)


def _number(*seed: int) -> int:
    return int(np.random.SeedSequence(seed).generate_state(1)[0])


def _drawn(choices: Choices, tried: Collection[tuple[Any, ...]], seed: int) -> dict[str, Any]:
    """An untried choice, each with the same chance; empty if all were tried."""
    random = np.random.default_rng(seed)
    if size_of(choices) <= _LISTED:
        left = [one for one in product(*choices.values()) if one not in tried]
        return dict(zip(choices, left[random.integers(len(left))], strict=True)) if left else {}
    while True:  # far more choices than trials: the first is untried almost surely
        drawn = {name: values[random.integers(len(values))] for name, values in choices.items()}
        if point(drawn, choices) not in tried:
            return drawn


def size_of(choices: Choices) -> int:
    """How many different choices there are."""
    return prod(len(values) for values in choices.values())
