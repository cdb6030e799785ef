"""What ``auto`` is asked for, and the candidates that it tries, cheap ones first."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, ValidationError, field_validator

from ncgnn.errors import InputError, UnknownNameError
from ncgnn.nn import describe_error, describe_unknown_option, model_class, model_names
from ncgnn.options import Options
from ncgnn.training.config import (
    ConfigFile,
    RunConfig,
    TrainingConfig,
    find_option,
    make_config,
    resolve_config,
    tables_preset,
)
from ncgnn.training.requirements import check_batch_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ncgnn.graph import Graph
    from ncgnn.training.config import TableEdges

AUTO = "auto"
#: The models that are tried, and their values that are worth trying; see :func:`list_candidates`.
FITTED: dict[str, tuple[dict[str, Any], ...]] = {
    "majority": ({},),
    "propagation": ({}, {"alpha": 0.5}),
    "logistic": ({}, {"penalty": 1.0}, {"penalty": 10.0}, {"penalty": 0.03}),
    "boosting": ({},),
    "feature-boosting": ({},),
}
STEPWISE = ("mlp", "tuned-sage", "sage", "tuned-gcn", "gcn", "ncgcn", "ncsage")
#: Learning rate and weight decay: for the features that papers use, and for people's own tables.
#: The order of the latter goes by validation nodes of Debian's packages: 77.2, 84.7 and 82.5 %
#: right by mlp and 83.3, 86.6 and 87.0 by tuned-sage with a decay of 0, of 1e-4 (5e-5) and of 5e-4.
RATES = ((0.01, 5e-4), (0.01, 0.0), (0.03, 1e-4))
TABLE_RATES = ((0.01, 1e-4), (0.01, 5e-4), (0.003, 0.0))
#: How long a candidate is trained at most, and how long without a new best validation score; on
#: people's own tables, their preset says so.
EPOCHS, PATIENCE = 300, 40
_SHORT = {"learning_rate": "rate", "weight_decay": "decay"}
_UNITS = (3600.0, 60.0, 1.0)


class AutoOptions(Options):
    """Options of ``auto``, which stand where those of a model do."""

    time: str | float = "10m"
    """How long it may take: seconds, or a number with s, m or h, as in ``90s``, ``10m``, ``1h``."""
    candidates: tuple[str, ...] | None = None
    """Names of the models to try; by default those that are worth trying everywhere."""
    combine: bool = True
    """Whether the best ones are combined, where validation says that this is better."""
    folds: Annotated[int, Field(ge=2)] = 3
    """In how many parts training nodes are answered for, each by experts that have not seen it, to
    train a gate with; two where there is no time for more."""

    @field_validator("time")
    @classmethod
    def _check_time(cls, time: str | float) -> str | float:
        try:
            read_time(time)
        except InputError as error:  # which names the field, as pydantic does
            raise ValueError(str(error).removeprefix("time ").partition(";")[0]) from None
        return time

    @field_validator("candidates", mode="before")
    @classmethod
    def _one_or_many(cls, names: Any) -> Any:
        if not isinstance(names, str) or names == "none":
            return names
        return tuple(name.strip() for name in names.split(","))

    @field_validator("candidates")
    @classmethod
    def _check_names(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if names is not None and not names:
            raise ValueError("must name a model, or be left out")
        for name in names or ():
            if name in (AUTO, "mixture"):
                raise ValueError(f"must be single models, not {name}")
            model_class(name)
        return names

    @property
    def seconds(self) -> float:
        """The time in seconds."""
        return read_time(self.time)


def read_time(time: str | float) -> float:
    """Seconds from a number of them, or from a text like ``90s``, ``1.5h`` or ``1h30m``."""
    number = r"(\d+(?:\.\d+)?)"
    found = re.fullmatch(rf"(?:{number}h)?\s*(?:{number}m)?\s*(?:{number}s?)?", str(time).strip())
    parts = zip(() if found is None else found.groups(), _UNITS, strict=False)
    seconds = sum(float(one) * size for one, size in parts if one is not None)
    if not seconds:
        raise InputError(
            f"time must be some seconds, like 90, or like 90s, 10m or 1h30m; got '{time}'."
        )
    return seconds


@dataclass(frozen=True)
class AutoConfig:
    """What ``auto`` is asked for.

    Attributes:
        base: Graph, split, seed, metric and device, which all candidates share.
        options: Its own options.
        model: Options that every candidate takes over that has them.
        training: Those of training, such as ``epochs``.
    """

    base: RunConfig
    options: AutoOptions
    model: Mapping[str, Any]
    training: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name of the folder of the search; more time continues the same one."""
        parts = self.base.name.replace(f"-{self.base.model.name}-", f"-{AUTO}-", 1)
        return f"{parts.rpartition('-')[0]}-{self._hash(self.base)[:10]}"

    @property
    def sha256(self) -> str:
        """The hash of all that is asked for but the time and the seed."""
        return self._hash(self.base.replaced("training", seed=0))

    def _hash(self, base: RunConfig) -> str:
        said = self.options.model_dump(mode="json", exclude={"time"})
        asked = base.sha256, said, dict(self.model), dict(self.training)
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def make_auto(
    *,
    dataset: str | None = None,
    split: str | None = None,
    device: str | None = None,
    seed: int | None = None,
    config: ConfigFile | None = None,
    settings: Mapping[str, Any] | None = None,
    tables: TableEdges | None = None,
) -> AutoConfig:
    """Put together what ``auto`` is asked for; arguments are those of :func:`make_config`.

    Settings of training, and options of models, hold for all candidates that know them.
    """
    sections: dict[str, dict[str, Any]] = {"data": {}, "model": {}, "training": {}}
    given = {} if config is None else config.tables
    for section in ("model", "training"):
        sections[section] |= given.get(section, {})
    for key, value in (settings or {}).items():
        section, option = find_option(key)
        sections[section][option] = value
    model = sections["model"]
    if str(model.pop("name", AUTO)) != AUTO:
        model = {}  # the file is for another model
    if sections["data"].get("protocol", "transductive") != "transductive":
        raise InputError("protocol must be 'transductive' with auto; name a model for others.")
    if sections["training"].pop("start_from", None) is not None:
        raise InputError("start_from must be left out with auto, which begins anew; name a model.")
    own = {name: model.pop(name) for name in list(model) if name in AutoOptions.model_fields}
    try:
        options = AutoOptions(**own)
    except ValidationError as error:
        raise InputError(f"auto: {describe_error(error, AutoOptions)}") from None
    shared = ("metric", "seed", "device", "precision", "class_shares")
    told = {f"data.{name}": value for name, value in sections["data"].items()}
    told |= {f"training.{k}": v for k, v in sections["training"].items() if k in shared}
    file = None
    if config is not None:
        file = ConfigFile(config.path, {"data": given.get("data", {})})
    base = make_config(
        dataset=dataset, model="majority", split=split, device=device, seed=seed, config=file,
        settings=told, tables=tables,
    )  # fmt: skip
    training = {k: v for k, v in sections["training"].items() if k not in shared}
    _check_training(training)
    _check_options(model, options.candidates or [*FITTED, *STEPWISE])
    return AutoConfig(base, options, model, training)


def _check_options(options: Iterable[str], models: Iterable[str]) -> None:
    """Refuse an option that no candidate has."""
    known = list(AutoOptions.model_fields)
    for name in models:
        if name in model_names():
            known += model_class(name).Options.model_fields
    for option in options:
        if option not in known:
            raise InputError(f"auto: {describe_unknown_option(option, list(dict.fromkeys(known)))}")


def _check_training(told: Mapping[str, Any]) -> None:
    """Refuse options of training that no candidate could be trained with."""
    try:
        training = TrainingConfig(**told)
    except ValidationError as error:
        raise InputError(f"auto: training.{describe_error(error, TrainingConfig)}") from None
    check_batch_options(training)
    if len(training.fanout or ()) > 1:
        raise InputError(
            "fanout must be one number with auto, whose models have different numbers of layers; "
            f"got {len(training.fanout or ())}."
        )


@dataclass(frozen=True)
class Candidate:
    """One of the models that are tried.

    Attributes:
        title: What people call it: the model, and how it differs from that which ``--models`` with
            its name alone trains.
        config: Its configuration.
    """

    title: str
    config: RunConfig

    @property
    def model(self) -> str:
        """The model's name."""
        return self.config.model.name

    def with_option(self, option: str, value: Any) -> Candidate:
        """The same with another value of an option of its model."""
        tree = self.config.model_dump(mode="json")
        tree["model"][option] = value
        return Candidate(f"{self.title}, {option} {value}", resolve_config(tree, AUTO))

    @property
    def sees_graph(self) -> bool:
        """Whether edges play a part."""
        return model_class(self.model).edges != "none"

    @property
    def fits_at_once(self) -> bool:
        """Whether it is fitted in one go."""
        return model_class(self.model).fits_at_once


def list_candidates(wanted: AutoConfig, graph: Graph) -> list[Candidate]:
    """The candidates in the order in which they are tried.

    Every model comes once, those first that are fitted in one go, and then those with other values
    and other rates, so that a short time has seen one of each kind. Where edges point somewhere,
    models tell their directions apart. Where there are none, models of features alone are tried,
    and where nodes have no features those of the graph.
    """
    names = wanted.options.candidates
    if names is None:
        names = [one for one in (*FITTED, *STEPWISE) if _sees_something(one, graph)]
    fitted = [name for name in FITTED if name in names]
    stepwise = [name for name in names if name not in FITTED]
    rates = RATES if graph.source is None else TABLE_RATES
    if {"learning_rate", "weight_decay"} & wanted.training.keys():
        rates = (rates[0],)
    first = _usual_rates(graph)

    def fitted_with(place: slice) -> list[Candidate]:
        every = [(name, values) for name in fitted for values in FITTED[name][place]]
        return [_candidate(wanted, graph, name, values, {}) for name, values in every]

    def trained_with(rate: float, decay: float) -> list[Candidate]:
        told = _name_rates(rate, decay)
        shown = {k: v for k, v in told.items() if v != first[k] and k not in wanted.training}
        return [_candidate(wanted, graph, name, {}, told, shown) for name in stepwise]

    found = [*fitted_with(slice(1)), *trained_with(*rates[0]), *fitted_with(slice(1, None))]
    # On large tables boosting takes minutes and cannot be stopped, so that a model of features and
    # graph that is trained in steps comes before it.
    place = next((n for n, c in enumerate(found) if c.sees_graph and not c.fits_at_once), 0)
    slow = [c for c in found[:place] if c.config.model.options.get("rounds")]
    found = [*(c for c in found[:place] if c not in slow), found[place], *slow, *found[place + 1 :]]
    for other in rates[1:]:
        found += trained_with(*other)
    once: dict[str, Candidate] = {}
    for one in found:  # a value may be the default, or given for all
        once.setdefault(one.config.name, one)
    return list(once.values())


def _sees_something(model: str, graph: Graph) -> bool:
    """Whether a graph has what a model looks at; the commonest class needs nothing."""
    if model_class(model).edges == "none":
        return graph.features is not None or model == "majority"
    return graph.num_entries > 0


def _usual_rates(graph: Graph) -> dict[str, float]:
    """Those of a model that is trained by its name; a candidate's title tells what differs."""
    if graph.source is None:
        return _name_rates(*RATES[0])
    usual = tables_preset(STEPWISE[0], directed=graph.has_direction)["training"]
    fields = TrainingConfig.model_fields
    return {name: usual.get(name, fields[name].default) for name in _SHORT}


def _name_rates(rate: float, decay: float) -> dict[str, float]:
    return {"learning_rate": rate, "weight_decay": decay}


def _candidate(
    wanted: AutoConfig,
    graph: Graph,
    name: str,
    options: dict[str, Any],
    rates: dict[str, float],
    shown: dict[str, Any] | None = None,
) -> Candidate:
    """A model with some options and rates."""
    if name not in model_names():
        raise UnknownNameError("model", name, model_names())
    known = model_class(name).Options.model_fields
    usual = tables_preset(name, directed=graph.has_direction)
    limits = {"epochs": EPOCHS, "patience": PATIENCE}
    if graph.source is not None:
        limits = {option: usual["training"][option] for option in limits}
    own = usual["model"] | options
    own |= {option: value for option, value in wanted.model.items() if option in known}
    base = wanted.base.training.model_dump(mode="json")
    training = base | limits | rates | dict(wanted.training)
    tree = {
        "data": wanted.base.data.model_dump(mode="json"),
        "model": {"name": name, **own},
        "training": training,
    }
    told = options | (shown or {})
    words = [f"{_SHORT.get(option, option)} {value:g}" for option, value in told.items()]
    return Candidate(", ".join([name, *words]), resolve_config(tree, AUTO))
