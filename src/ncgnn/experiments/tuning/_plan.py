"""What a parameter search is about: it decides every trial, and the name of the study."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ncgnn.errors import InputError, NcgnnError
from ncgnn.experiments._grid import seed_list
from ncgnn.experiments.tuning._space import SearchSpace, make_space
from ncgnn.training import RunConfig, make_config
from ncgnn.training._toml import read_toml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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
    tree = read_toml(path)
    searched = _dotted(tree.pop("search", {}), f"{path}, search")
    fixed = _dotted(tree, str(path))
    if fixed.get("model.name", model) != model:
        # What the file says of one model means nothing to another.
        fixed = {key: value for key, value in fixed.items() if not key.startswith("model.")}
        searched = {key: value for key, value in searched.items() if not key.startswith("model.")}
    return fixed, searched


def _dotted(tree: Any, where: str) -> dict[str, Any]:
    known = ", ".join([*RunConfig.model_fields, *(() if where.endswith("search") else ("search",))])
    found: dict[str, Any] = {}
    if not isinstance(tree, dict):
        raise InputError(f"{where} must hold sections; known: {known}.")
    for section, options in cast("dict[str, Any]", tree).items():
        if section not in RunConfig.model_fields or not isinstance(options, dict):
            raise InputError(f"{where}: there is no section [{section}]; known: {known}.")
        found |= {f"{section}.{option}": value for option, value in options.items()}
    return found
