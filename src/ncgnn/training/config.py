"""The configuration of a run: typed, complete, and in the same words everywhere.

Options come from defaults, from the presets that ship with the package (what the paper found best,
or a search of ours by validation), from a TOML file, and from arguments; what comes later wins.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
import warnings
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ncgnn._io import as_path, parse_toml
from ncgnn.data import (
    DEFAULT_FRACTIONS,
    canonical_name,
    folder_sha256,
    is_folder,
    list_datasets,
    make_split,
    read_manifest,
    split_families,
)
from ncgnn.errors import InputError, NcgnnWarning, UnknownNameError
from ncgnn.nn import (
    Drawing,
    FeatureScaling,
    describe_error,
    describe_unknown_option,
    model_class,
    model_name,
    parse_options,
)
from ncgnn.options import AddedLater, Options, later_defaults
from ncgnn.training.evaluation import Metric
from ncgnn.training.requirements import check_requirements

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ncgnn.data import Split
    from ncgnn.graph import Graph
    from ncgnn.nn import Model

Tree = dict[str, Any]
ClassShares = Literal["train", "val"]
CalibrationKind = Literal["temperature", "none"]
TableEdges = Literal["directed", "undirected"]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=0, lt=1 << 63)]

#: Number of the format of the files in a run's folder.
FORMAT = 1
#: The split family on which our own search chose parameters.
SEARCHED_ON = "paper"


#: What training sees of a graph.
Protocol = Literal["transductive", "inductive", "temporal"]


def family_of(data: Mapping[str, Any]) -> str:
    """The split family of the section ``data`` of a configuration, with an unusual protocol."""
    protocol = data.get("protocol", "transductive")
    return str(data["split"]) + ("" if protocol == "transductive" else f", {protocol}")


class DataConfig(Options):
    """Which graph, and how it is split."""

    dataset: str
    """A name that ``ncgnn datasets`` lists, or the path of an npz file or dataset folder."""
    split: str = "stratified"
    """Split family."""
    scaling: FeatureScaling = "raw"
    """``raw`` features, or ``row``: each row divided by its sum."""
    split_seed: Seed | None = None
    """Seed of the split, if it must not change with that of training."""
    fractions: Annotated[tuple[NotNegative, NotNegative, NotNegative] | None, AddedLater] = None
    """Shares of train, val and test, where they are not those of the split family."""
    protocol: Annotated[Protocol, AddedLater] = "transductive"
    """What training sees of the graph: all of it (``transductive``), the training nodes and the
    edges among them (``inductive``), or those, with validation among training and validation nodes
    (``temporal``, for splits by time); see :mod:`ncgnn.training.protocols`. Test nodes are answered
    for in the whole graph."""
    fingerprint: Annotated[str | None, AddedLater] = None
    """Hash of what a dataset folder holds, so that other content is another run; it is read from
    the folder."""

    @property
    def family(self) -> str:
        """The split family, and the protocol where it is not the usual one.

        Results of different ones never share a table.
        """
        return family_of({"split": self.split, "protocol": self.protocol})

    @field_validator("split")
    @classmethod
    def _check_split(cls, split: str) -> str:
        if split != "custom" and split not in split_families():
            raise UnknownNameError("split family", split, list(split_families()))
        return split

    @field_validator("fractions")
    @classmethod
    def _check_fractions(cls, shares: tuple[float, ...] | None) -> tuple[float, ...] | None:
        if shares is not None and abs(sum(shares) - 1) > 1e-9:
            raise ValueError("must sum to 1")
        return None if shares == DEFAULT_FRACTIONS else shares  # one split, one name

    def make_split(self, graph: Graph, seed: int, *, warn: bool = False) -> Split:
        """The split of a graph for a seed of training."""
        own = seed if self.split_seed is None else self.split_seed
        shares = self.fractions or DEFAULT_FRACTIONS
        return make_split(graph, self.split, own, fractions=shares, warn=warn)


class TrainingConfig(Options):
    """How a model is trained."""

    learning_rate: Positive = 0.01
    """Step size of Adam."""
    weight_decay: NotNegative = 5e-4
    """L2 penalty of all parameters."""
    epochs: Annotated[int, Field(ge=1)] = 500
    """Upper limit of the number of epochs."""
    patience: Annotated[int, Field(ge=1)] = 100
    """Epochs without a new best validation score after which training ends."""
    metric: Metric = "accuracy"
    """The validation score that selects the best epoch and the best configuration of a search; see
    :func:`ncgnn.training.score`."""
    seed: Seed = 0
    """Seed of the split (unless it has one of its own), of the first weights and of dropout."""
    device: str = "cpu"
    """Where tensors live."""
    precision: Literal["float32", "float64"] = "float32"
    """Type of all numbers."""
    class_shares: ClassShares = "train"
    """Whose class shares predictions are meant for: those of ``train`` nodes, or of ``val`` nodes;
    see :class:`ncgnn.training.trainer.ShareCorrection`."""
    averaging: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """A running mean of the weights is validated, regroups nodes and is kept; this is the share
    that it keeps of itself per step in the long run, 0 = no mean. See
    :func:`ncgnn.training.trainer.average_weights`."""
    calibration: Annotated[CalibrationKind, AddedLater] = "temperature"
    """How answers become probabilities: with temperatures found on validation nodes, or ``none``,
    as the model says them; see :mod:`ncgnn.training.calibration`. Classes and scores do not depend
    on it."""
    batch_size: Annotated[Annotated[int, Field(ge=1)] | None, AddedLater] = None
    """How many training nodes a step is taken on, with some of the edges around them; None = all
    nodes and edges at a time. All nodes are then predicted layer by layer, from all edges."""
    fanout: Annotated[tuple[Annotated[int, Field(ge=-1)], ...] | None, AddedLater] = None
    """How many neighbors of a node a batch draws at each hop, like ``(15, 10)``; -1 = all. None is
    10 at every hop."""
    sampling: Annotated[Drawing, AddedLater] = "uniform"
    """How neighbors are drawn: each subset of a node's neighbors alike (``uniform``), or such that
    the nodes of a batch share theirs (``labor``); see :class:`ncgnn.sparse.NeighborSampler`."""
    start_from: Annotated[str | None, AddedLater] = None
    """The run whose weights are the first ones: ``latest``, a run's name or path, or the hash of
    its weights (``sha256:…``), which is what a run keeps; see :mod:`ncgnn.training.start`."""
    memory_check: Annotated[bool, AddedLater] = True
    """Whether a run that is expected not to fit into memory is trained in batches, or refused; see
    :mod:`ncgnn.training.choice`."""


class ModelConfig(BaseModel):
    """A model by name, with its own options beside it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        model_class(name)
        return model_name(name)

    @property
    def options(self) -> dict[str, Any]:
        """The options of the model."""
        return dict(self.__pydantic_extra__ or {})


class RunConfig(Options):
    """Everything that decides the outcome of one run."""

    data: DataConfig
    model: ModelConfig
    training: TrainingConfig = TrainingConfig()

    @property
    def split_seed(self) -> int:
        """The seed of the split."""
        own = self.data.split_seed
        return self.training.seed if own is None else own

    def make_split(self, graph: Graph, *, warn: bool = False) -> Split:
        """The split of a graph that it names."""
        return self.data.make_split(graph, self.training.seed, warn=warn)

    @property
    def sha256(self) -> str:
        """A hash of all that :func:`naming_options` leaves: equal configurations, equal hashes."""
        return config_sha256(self.storable().model_dump(mode="json"))

    @property
    def name(self) -> str:
        """The name of the run's folder."""
        graph = re.sub(r"[^\w.-]", "_", Path(self.data.dataset).stem) or "graph"
        content = [self.data.fingerprint[:8]] if self.data.fingerprint else []
        parts = (graph, *content, self.model.name, self.data.split, f"s{self.training.seed}")
        return f"{'-'.join(parts)}-{self.sha256[:10]}"

    def replaced(self, section: Literal["data", "training"], **options: Any) -> RunConfig:
        """The same configuration with other values of some options, which are not checked."""
        return self.model_copy(update={section: getattr(self, section).model_copy(update=options)})

    def storable(self) -> RunConfig:
        """The configuration with functions among its options replaced by their names.

        Raises:
            InputError: A function has none.
        """
        if not any(map(callable, self.model.options.values())):
            return self
        config = resolve_config(self.model_dump())
        for option, value in config.model.options.items():
            if callable(value):
                raise InputError(
                    f"model.{option} must have a name to be saved; got a function. Name it with "
                    "ncgnn.nn.register_guidance(name, function) first."
                )
        return config


def config_sha256(tables: Tree) -> str:
    """A hash of the tables of a configuration."""
    return hashlib.sha256(json.dumps(naming_options(tables), sort_keys=True).encode()).hexdigest()


def naming_options(tables: Tree) -> Tree:
    """The tables of a configuration without what is younger than stored runs and at its default.

    See :class:`ncgnn.options.AddedLater`.
    """
    kinds: dict[str, type[BaseModel]] = {"data": DataConfig, "training": TrainingConfig}
    with suppress(UnknownNameError):  # the run of a model that is not at hand
        kinds["model"] = model_class(tables["model"]["name"]).Options
    kept = dict(tables)
    for section, kind in kinds.items():
        defaults = later_defaults(kind).items()
        options = tables[section].items()
        kept[section] = {name: value for name, value in options if (name, value) not in defaults}
    return kept


def make_config(
    *,
    dataset: str | None = None,
    model: str | type[Model] | None = None,
    split: str | None = None,
    device: str | None = None,
    seed: int | None = None,
    config: Path | str | ConfigFile | None = None,
    settings: Mapping[str, Any] | None = None,
    tables: TableEdges | None = None,
) -> RunConfig:
    """Put a configuration together; what comes later wins.

    Defaults, then the preset of model, dataset and split family, then that of people's own tables
    (``tables`` says that the dataset is such, and whether its edges have a direction; a dataset
    folder says so itself), then the TOML file, then the arguments named here, then ``settings``,
    whose keys are ``section.option``, or ``option`` alone where one section only can have it.
    """
    file = read_config_file(config) if isinstance(config, Path | str) else config
    where = "configuration" if file is None else str(file.path)
    given: Tree = {} if file is None else file.tables
    arguments: dict[tuple[str, str], Any] = {
        ("data", "dataset"): dataset,
        ("model", "name"): None if model is None else model_name(model),
        ("data", "split"): split,
        ("training", "device"): device,
        ("training", "seed"): seed,
    }
    said = {place: value for place, value in arguments.items() if value is not None}
    said |= {find_option(key): value for key, value in (settings or {}).items()}
    name = said.get(("model", "name"), given.get("model", {}).get("name", "ncgcn"))
    name = model_name(str(name))
    check_options(settings or {}, name, where)
    if model_name(str(given.get("model", {}).get("name", name))) != name:
        # Options of the model that the file is for mean nothing to another one.
        if len(given["model"]) > 1:
            warnings.warn(
                f"{where}: [model] is for {given['model']['name']} and is not used for {name}.",
                NcgnnWarning,
                stacklevel=2,
            )
        given = {key: value for key, value in given.items() if key != "model"}
    tree = _merge({"data": {}, "model": {"name": name}, "training": {}}, given)
    for (section, option), value in said.items():
        tree[section][option] = value
    data = tree["data"]
    if "dataset" not in data:
        raise InputError("name a graph: GRAPH on the command line, or dataset = … under [data].")
    beside = None if file is None or ("data", "dataset") in said else file.path.parent
    data["dataset"] = locate_dataset(str(data["dataset"]), beside)
    shipped = preset(name, data["dataset"], data.get("split"))
    tables = tables or edges_of_tables(data["dataset"])
    if is_folder(data["dataset"]) and ("data", "fingerprint") not in said:
        # A configuration file may be of an earlier night.
        data["fingerprint"] = folder_sha256(read_manifest(data["dataset"]))
    if tables is not None:
        shipped = _merge(shipped, tables_preset(name, directed=tables == "directed"))
    found = resolve_config(_merge(shipped, tree), where)
    check_requirements(found)
    return found


def resolve_config(tree: Tree, where: str = "configuration") -> RunConfig:
    """A configuration with every option filled in, from nested dictionaries.

    Raises:
        InputError: Names the field, what is wrong with it, and where it stands.
        UnknownNameError: There is no such model or split family; it says which there are.
    """
    try:
        config = RunConfig.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        if isinstance(cause := first.get("ctx", {}).get("error"), InputError):
            raise cause from None
        kind = {"data": DataConfig, "training": TrainingConfig}.get(str(first["loc"][0]))
        raise InputError(f"{where}: {describe_error(error, kind)}") from None
    name, kind = config.model.name, model_class(config.model.name).Options
    options = parse_options(kind, config.model.options, f"{where}, {name}: model.")
    functions = {key: value for key, value in options if callable(value)}  # from Python only
    plain = options.model_dump(mode="json", exclude=set(functions))
    model = ModelConfig(name=name, **plain, **functions)
    return config.model_copy(update={"model": model})


def find_option(key: str) -> tuple[str, str]:
    """Section and option that a key means, ``section.option`` or ``option`` alone."""
    section, dot, option = key.partition(".")
    if dot:
        if section not in RunConfig.model_fields:
            known = ", ".join(RunConfig.model_fields)
            raise InputError(f"--set {key}: there is no section '{section}'; known: {known}.")
        return section, option
    for name, kind in (("data", DataConfig), ("training", TrainingConfig)):
        if key in kind.model_fields:
            return name, key
    return "model", key


def locate_dataset(dataset: str, beside: Path | None = None) -> str:
    """A dataset as the catalog calls it, or the absolute path of a file or dataset folder.

    A file or folder is looked for in ``beside`` and then in this folder. A run can then be used
    from any folder, two files of one name are two graphs, and one dataset has one name.
    """
    known = {entry.name for entry in list_datasets()}
    if dataset in known:
        return dataset
    for folder in (Path.cwd(),) if beside is None else (beside, Path.cwd()):
        path = folder / as_path(dataset)
        if is_folder(path) or (dataset.endswith(".npz") and path.is_file()):
            return str(path.resolve())
    return dataset if dataset.endswith(".npz") else canonical_name(dataset)


def _merge(base: Tree, over: Tree) -> Tree:
    """Two nested dictionaries in one; the second wins."""
    result = deepcopy(base)
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = _merge(result[key], value)
        else:
            result[key] = deepcopy(value)
    return result


def check_options(keys: Iterable[str], model: str, where: str = "configuration") -> None:
    """Refuse an option that no section has, among the ``keys`` that do not say which one they mean.

    Raises:
        InputError: It names the option that is probably meant, of any section.
    """
    unsaid = [key for key in keys if "." not in key]
    if not unsaid:
        return
    known = ["name", *model_class(model).Options.model_fields]
    for key in unsaid:
        if find_option(key)[0] == "model" and key not in known:
            everything = [*known[1:], *TrainingConfig.model_fields, *DataConfig.model_fields]
            raise InputError(f"{where}, {model}: {describe_unknown_option(key, everything)}")


@dataclass(frozen=True)
class ConfigFile:
    """What a TOML file said when it was read.

    Attributes:
        path: Absolute path of the file.
        tables: Its options by section; those of a search are left out.
    """

    path: Path
    tables: Tree

    @property
    def model(self) -> str | None:
        """The model that it names."""
        name = self._option("model", "name")
        return None if name is None else model_name(name)

    @property
    def dataset(self) -> str | None:
        """The dataset that it names; a file is looked for beside it."""
        name = self._option("data", "dataset")
        return None if name is None else locate_dataset(name, self.path.parent)

    @property
    def split(self) -> str | None:
        """The split family that it names."""
        return self._option("data", "split")

    @property
    def scope(self) -> str:
        """Which runs it is for, in words."""
        parts = (self.model, None if self.dataset is None else f"on {self.dataset}")
        return " ".join(part for part in parts if part) or "everything"

    def fits(self, dataset: str | None, model: str | None) -> bool:
        """Whether it is for a model on a dataset; None: for any."""
        mine, wanted = self.dataset, None if dataset is None else locate_dataset(dataset)
        same_model = None in (self.model, model) or self.model == model
        return same_model and (None in (mine, wanted) or mine == wanted)

    def _option(self, section: str, option: str) -> str | None:
        value = self.tables.get(section, {}).get(option)
        return None if value is None else str(value)


def read_config_file(path: Path | str) -> ConfigFile:
    """Read a TOML file of options."""
    path = as_path(path)
    tree = read_toml(path)
    tree.pop("search", None)  # for `tune`
    if (number := tree.pop("format", FORMAT)) != FORMAT:
        raise InputError(f"{path}: format must be {FORMAT}; got {number!r}.")
    known = ", ".join(RunConfig.model_fields)
    for key, value in tree.items():
        if key in RunConfig.model_fields:
            if not isinstance(value, dict):
                raise InputError(f"{path}: {key} must be a section, [{key}].")
        elif isinstance(value, dict):
            raise InputError(f"{path}: there is no section [{key}]; known: {known}.")
        else:
            section = tree.get("model")
            model = section.get("name", "ncgcn") if isinstance(section, dict) else "ncgcn"
            check_options([key], str(model), str(path))
            home = find_option(key)[0]
            raise InputError(f"{path}: {key} belongs under a section, [{home}].")
    return ConfigFile(path.absolute(), tree)


def read_toml(path: Path | str) -> Tree:
    """Read a TOML file; the error names the file and the place."""
    try:
        return parse_toml(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}; name a TOML configuration.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable TOML file ({error}).") from None


def to_toml(tree: Tree) -> str:
    """Write tables of plain values as a configuration; options without a value are left out."""
    tables = {
        name: {key: value for key, value in table.items() if value is not None}
        for name, table in tree.items()
    }
    return tomli_w.dumps({"format": FORMAT, **tables})


def read_setting(text: str) -> tuple[str, Any]:
    """Read ``key=value`` as the command line takes it: a value or values of TOML, or a word."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError(f"--set is '{text}'; give key=value, like training.epochs=200.")
    for text in (value, f"[{value}]") if "," in value else (value,):
        try:
            return key.strip(), parse_toml(f"value = {text}")["value"]
        except ValueError:
            continue
    return key.strip(), value.strip()


def preset(model: str, dataset: str, split: str | None = None) -> Tree:
    """The shipped parameters of a model on a dataset; what no file speaks of is left out.

    What was searched on a family of splits is for that family alone: on others, parameters would
    be chosen with labels of their test nodes.
    """
    tree, name = _shipped(model), _preset_name(dataset)
    own = tree.pop("datasets", {}).get(name, {})
    tree.pop("search", None)
    tree = _merge(tree, own)
    if split == SEARCHED_ON:
        for key, value in _shipped("searched").get(model, {}).get(name, {}).items():
            section, option = find_option(key)
            tree.setdefault(section, {})[option] = value
    return tree


def _preset_name(dataset: str) -> str:
    """The dataset that presets name: that of which it is a variant, or itself."""
    name = locate_dataset(dataset)
    variants = {entry.name: entry.variant_of for entry in list_datasets() if entry.variant_of}
    return variants.get(name, name)


def tables_preset(model: str, *, directed: bool) -> Tree:
    """Where a model begins on people's own tables; see ``presets/tables.toml``."""
    tree = _shipped("tables")
    options = tree["model"] | (tree["directed"] if directed else {})
    options |= tree["models"].get(model, {})
    known = model_class(model).Options.model_fields
    kept = {option: value for option, value in options.items() if option in known}
    return {"training": tree["training"], "model": kept}


def edges_of_tables(dataset: str) -> TableEdges | None:
    """Whether the edges of people's own tables have a direction; None for any other dataset."""
    if not is_folder(dataset):
        return None
    return "directed" if read_manifest(dataset)["directed"] else "undirected"


def has_preset(model: str, dataset: str) -> bool:
    """Whether parameters for exactly this dataset are shipped, whatever the split."""
    return _preset_name(dataset) in _shipped(model).get("datasets", {})


def has_own_values(model: str, dataset: str, split: str | None) -> bool:
    """Whether parameters of training or of the model are shipped for just this dataset."""
    here, anywhere = preset(model, dataset, split), preset(model, "")
    return any(here.get(part) != anywhere.get(part) for part in ("training", "model"))


def searched_datasets(model: str) -> list[str]:
    """Datasets for which a search of ours chose parameters of a model."""
    return list(_shipped("searched").get(model, {}))


def search_space(model: str, tables: TableEdges | None = None) -> dict[str, list[Any]]:
    """Values to search, by ``section.option``: the paper's common ones and the model's own.

    A list of lists stands for an option with one value per group of nodes, each searched on its
    own. An option that the model does not have is left out, and so is one that its preset gives no
    values.

    Args:
        model: The model's name.
        tables: Whether edges have a direction, where the dataset is people's own tables: other
            rates are worth trying there, and where edges point somewhere, whether that counts.
    """
    tree = _merge(_shipped("common"), _shipped(model))["search"]
    if tables is not None:
        more = _shipped("tables")["search"]
        directed = more.pop("directed")
        tree = _merge(_merge(tree, more), {"model": directed if tables == "directed" else {}})
    kind = model_class(model)
    known = {  # rates mean nothing to a model that takes no steps
        "training": () if kind.fits_at_once else TrainingConfig.model_fields.keys(),
        "model": kind.Options.model_fields.keys(),
    }
    return {
        f"{section}.{option}": values
        for section, options in tree.items()
        for option, values in options.items()
        if option in known[section] and values
    }


def _shipped(model: str) -> Tree:
    return deepcopy(_read_preset(model))


@cache
def _read_preset(model: str) -> Tree:
    path = files("ncgnn.training") / "presets" / f"{model}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
