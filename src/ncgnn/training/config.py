"""Configurations that ship with the package: what the paper found best, or validation did here.

The configuration of a run: typed, complete, and the same words everywhere.

A TOML file with options, and which runs it is for.

TOML in and out, for nested tables of plain values.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
import warnings
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
)

from ncgnn._typed import Typed
from ncgnn.errors import InputError, NcgnnWarning
from ncgnn.nn import FeatureScaling
from ncgnn.training.trainer import ClassShares

if TYPE_CHECKING:
    from collections.abc import Mapping

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=0, lt=1 << 63)]


class DataConfig(Typed):
    """Which graph, and how it is split.

    Attributes:
        dataset: A name that ``ncgnn datasets`` lists, or the path of an npz file.
        split: Split family.
        scaling: ``raw`` features, or ``row``: each row divided by its sum.
        split_seed: Seed of the split, where it shall not change with that of training.
    """

    dataset: str
    split: str = "stratified"
    scaling: FeatureScaling = "raw"
    split_seed: Seed | None = None

    @model_serializer(mode="wrap")
    def _without_what_is_not_said(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        tables = handler(self)
        if self.split_seed is None:
            del tables["split_seed"]
        return tables

    @field_validator("split")
    @classmethod
    def _known(cls, split: str) -> str:
        from ncgnn.data import split_families
        from ncgnn.errors import UnknownNameError

        if split != "custom" and split not in split_families():
            raise UnknownNameError("split family", split, list(split_families()))
        return split


class TrainingConfig(Typed):
    """How a model is trained.

    Attributes:
        learning_rate: Step size of Adam.
        weight_decay: L2 penalty of all parameters.
        epochs: Upper limit of the number of epochs.
        patience: Epochs without a new best validation accuracy after which training ends.
        seed: Of the split (unless it has a seed of its own), of the first weights and of dropout.
        device: Where tensors live.
        precision: ``float32`` or ``float64``.
        class_shares: Which nodes' class shares answers are meant for: those of ``train`` nodes, or
            of ``val`` nodes, see :class:`ncgnn.training._shares.ShareCorrection`.
        averaging: What is validated, regroups nodes and is kept is a running mean of the weights;
            this is the share that it keeps of itself per step in the long run, and 0 means no
            mean. See :func:`ncgnn.training._averaging.averaged_step`.
    """

    learning_rate: Positive = 0.01
    weight_decay: NotNegative = 5e-4
    epochs: Annotated[int, Field(ge=1)] = 500
    patience: Annotated[int, Field(ge=1)] = 100
    seed: Seed = 0
    device: str = "cpu"
    precision: Literal["float32", "float64"] = "float32"
    class_shares: ClassShares = "train"
    averaging: Annotated[float, Field(ge=0, lt=1)] = 0.0

    @model_serializer(mode="wrap")
    def _without_what_is_usual(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        tables = handler(self)
        usual = {"class_shares": "train", "averaging": 0.0}
        return {k: v for k, v in tables.items() if k not in usual or usual[k] != v}


class ModelConfig(BaseModel):
    """A model by name, with its own options beside it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        from ncgnn.nn import model_class

        model_class(name)
        return name

    @property
    def options(self) -> dict[str, Any]:
        """The options of the model."""
        return dict(self.__pydantic_extra__ or {})


class RunConfig(Typed):
    """Everything that decides the outcome of one run."""

    data: DataConfig
    model: ModelConfig
    training: TrainingConfig = TrainingConfig()

    @property
    def split_seed(self) -> int:
        """The seed of the split."""
        own = self.data.split_seed
        return self.training.seed if own is None else own

    @property
    def sha256(self) -> str:
        """A hash of the configuration: equal configurations, equal hashes."""
        return config_sha256(self.model_dump(mode="json"))

    @property
    def name(self) -> str:
        """The name of the run's folder."""
        import re
        from pathlib import Path

        graph = re.sub(r"[^\w.-]", "_", Path(self.data.dataset).stem) or "graph"
        parts = (graph, self.model.name, self.data.split, f"s{self.training.seed}")
        return f"{'-'.join(parts)}-{self.sha256[:10]}"


def config_sha256(tables: dict[str, Any]) -> str:
    """A hash of the tables of a configuration."""
    return hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()


def resolved(tree: dict[str, Any], where: str = "configuration") -> RunConfig:
    """A configuration with every option filled in, from nested dictionaries.

    Raises:
        InputError: Names the field, what is wrong with it, and where it stands.
        UnknownNameError: There is no such model or split family; it says which there are.
    """
    from pydantic import ValidationError

    from ncgnn.errors import InputError
    from ncgnn.nn import checked, complaint, model_class

    try:
        config = RunConfig.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        if isinstance(cause := first.get("ctx", {}).get("error"), InputError):
            raise cause from None
        section = str(first["loc"][0])
        kind = {"data": DataConfig, "training": TrainingConfig}.get(section)
        raise InputError(f"{where}: {complaint(error, kind)}") from None
    kind = model_class(config.model.name).Options
    chosen = checked(kind, config.model.options, f"{where}, {config.model.name}: model.")
    options = {"name": config.model.name, **chosen.model_dump(mode="json")}
    return config.model_copy(update={"model": ModelConfig(**options)})


Tree = dict[str, Any]


@dataclass(frozen=True)
class ConfigFile:
    """What a TOML file said when it was read.

    Attributes:
        path: Of the file, from the root on.
        tables: Its options by section; those of a search are left out.
    """

    path: Path
    tables: Tree

    @property
    def model(self) -> str | None:
        """The model that it names."""
        return self._named("model", "name")

    @property
    def dataset(self) -> str | None:
        """The data set that it names; a file is looked for beside it."""
        name = self._named("data", "dataset")
        return None if name is None else located(name, self.path.parent)

    @property
    def split(self) -> str | None:
        """The split family that it names."""
        return self._named("data", "split")

    def fits(self, dataset: str | None, model: str | None) -> bool:
        """Whether it is for a model on a data set; None: for any."""
        mine, wanted = self.dataset, None if dataset is None else located(dataset)
        same_model = None in (self.model, model) or self.model == model
        return same_model and (None in (mine, wanted) or mine == wanted)

    @property
    def scope(self) -> str:
        """Which runs it is for, in words."""
        parts = (self.model, None if self.dataset is None else f"on {self.dataset}")
        return " ".join(part for part in parts if part) or "everything"

    def _named(self, section: str, option: str) -> str | None:
        value = self.tables.get(section, {}).get(option)
        return None if value is None else str(value)


def located(dataset: str, beside: Path | None = None) -> str:
    """A data set as the catalogue calls it, or the absolute path of a file.

    A file is looked for in ``beside`` and then in this folder. A run can then be used from any
    folder, two files of one name are two graphs, and one data set has one name.
    """
    from ncgnn.data import canonical_name

    if not dataset.endswith(".npz"):
        return canonical_name(dataset)
    for folder in (Path.cwd(),) if beside is None else (beside, Path.cwd()):
        path = folder / Path(dataset).expanduser()
        if path.is_file():
            return str(path.resolve())
    return dataset


def read_toml(path: Path | str) -> dict[str, Any]:
    """Read a TOML file; the error names the file and the place."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}; name a TOML configuration.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: not a readable TOML file ({error}).") from None


def to_toml(tree: dict[str, Any]) -> str:
    """Write a dictionary of tables of plain values; None is left out."""
    lines: list[str] = []
    for table, fields in tree.items():
        lines.append(f"[{table}]")
        lines += [f"{key} = {_value(value)}" for key, value in fields.items() if value is not None]
        lines.append("")
    return "\n".join(lines)


def read_setting(text: str) -> tuple[str, Any]:
    """Read ``key=value`` as the command line takes it: a value or values of TOML, or a word."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError(f"--set is '{text}'; give key=value, like training.epochs=200.")
    for text in (value, f"[{value}]") if "," in value else (value,):
        try:
            return key.strip(), tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            continue
    return key.strip(), value.strip()


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value)


#: The split family of our own search.
SEARCHED_ON = "paper"


def preset(model: str, dataset: str, split: str | None = None) -> Tree:
    """The shipped parameters of a model on a data set; what no file speaks of is left out.

    What was searched on a family of splits is for that family alone: on others, parameters would
    be chosen with labels of their test nodes.
    """
    tree = _shipped(model)
    by_dataset = tree.pop("datasets", {})
    tree.pop("search", None)
    name = located(dataset)
    tree = merged(tree, by_dataset.get(name, {}))
    return merged(tree, _searched(model, name)) if split == SEARCHED_ON else tree


def search_space(model: str) -> dict[str, list[Any]]:
    """Values to search, by ``section.option``: the paper's common ones and the model's own.

    A list of lists stands for an option with one value per group of nodes, each searched on its
    own. An option that the model does not have is left out, and so is one that its preset gives no
    values.
    """
    from ncgnn.nn import model_class

    tree = merged(_shipped("common"), _shipped(model))["search"]
    known = {
        "training": TrainingConfig.model_fields.keys(),
        "model": model_class(model).Options.model_fields.keys(),
    }
    return {
        f"{section}.{option}": values
        for section, options in tree.items()
        for option, values in options.items()
        if option in known[section] and values
    }


def has_preset(model: str, dataset: str) -> bool:
    """Whether parameters for exactly this data set are shipped, whatever the split."""
    return located(dataset) in _shipped(model).get("datasets", {})


def has_own_values(model: str, dataset: str, split: str | None) -> bool:
    """Whether parameters of training or of the model are shipped for just this data set."""
    here, anywhere = preset(model, dataset, split), preset(model, "")
    return any(here.get(part) != anywhere.get(part) for part in ("training", "model"))


def searched_datasets(model: str) -> list[str]:
    """Data sets for which a search of ours chose parameters of a model."""
    return list(_shipped("searched").get(model, {}))


def _searched(model: str, dataset: str) -> Tree:
    """What that search chose, by section."""
    tree: Tree = {}
    for key, value in _shipped("searched").get(model, {}).get(dataset, {}).items():
        section, option = placed(key)
        tree.setdefault(section, {})[option] = value
    return tree


def _shipped(model: str) -> Tree:
    return deepcopy(_read_preset(model))


@cache
def _read_preset(model: str) -> Tree:
    path = files("ncgnn.training") / "presets" / f"{model}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def make_config(
    *,
    dataset: str | None = None,
    model: str | None = None,
    split: str | None = None,
    device: str | None = None,
    seed: int | None = None,
    config: Path | str | ConfigFile | None = None,
    settings: Mapping[str, Any] | None = None,
) -> RunConfig:
    """Put a configuration together; what comes later wins.

    Defaults, then the preset of model, data set and split family, then the TOML file, then the
    arguments named here, then ``settings``, whose keys are ``section.option``, or ``option`` alone
    where one section only can have it.
    """
    file = read_config_file(config) if isinstance(config, Path | str) else config
    where = "configuration" if file is None else str(file.path)
    given = {} if file is None else file.tables
    named: Tree = {"data": {}, "model": {}, "training": {}}
    for section, key, value in (
        ("data", "dataset", dataset),
        ("model", "name", model),
        ("data", "split", split),
        ("training", "device", device),
        ("training", "seed", seed),
    ):
        if value is not None:
            named[section][key] = value
    tree = merged(given, named)
    own = {placed(key): value for key, value in (settings or {}).items()}
    for section, option in own.keys() & {("model", "name"), ("data", "dataset")}:
        tree[section][option] = own[section, option]
    chosen = tree["model"].get("name", "ncgcn")
    tree["model"]["name"] = chosen
    _check_known([key for key in settings or {} if "." not in key], chosen, where)
    if "dataset" not in tree["data"]:
        raise InputError("name a graph: GRAPH on the command line, or dataset = … under [data].")
    said_here = dataset is not None or ("data", "dataset") in own
    beside = None if said_here or file is None else file.path.parent
    tree["data"]["dataset"] = located(str(tree["data"]["dataset"]), beside)
    if chosen != given.get("model", {}).get("name", chosen):
        # Options of the model that the file speaks of mean nothing to another one.
        if len(given["model"]) > 1:
            warnings.warn(
                f"{where}: [model] is for {given['model']['name']} and is not used for {chosen}.",
                NcgnnWarning,
                stacklevel=2,
            )
        tree["model"] = {"name": chosen}
    family = own.get(("data", "split"), tree["data"].get("split"))
    tree = merged(preset(chosen, str(tree["data"]["dataset"]), family), tree)
    for (section, option), value in own.items():
        if (section, option) != ("data", "dataset"):
            tree[section][option] = value
    return resolved(tree, where)


def merged(base: Tree, over: Tree) -> Tree:
    """Two nested dictionaries in one; the second wins."""
    result = deepcopy(base)
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = deepcopy(value)
    return result


def read_config_file(path: Path | str) -> ConfigFile:
    """What a TOML file says now."""
    path = Path(path).expanduser()
    return ConfigFile(path.absolute(), _given_tables(path))


def _given_tables(path: Path) -> Tree:
    tree = {key: value for key, value in read_toml(path).items() if key != "search"}  # for `tune`
    for key, value in tree.items():
        if key not in RunConfig.model_fields:
            if not isinstance(value, dict):
                raise InputError(_at_home(key, tree, str(path)))
            known = ", ".join(RunConfig.model_fields)
            raise InputError(f"{path}: there is no section [{key}]; known: {known}.")
        if not isinstance(value, dict):
            raise InputError(f"{path}: {key} must be a section, [{key}].")
    return tree


def _check_known(keys: list[str], model: Any, where: str) -> None:
    """Complain of an option that no section has; ``keys`` do not say which one they mean."""
    from ncgnn.nn import model_class, no_such_option

    if not keys:
        return
    known = ["name", *model_class(str(model)).Options.model_fields]
    for key in keys:
        if placed(key)[0] == "model" and key not in known:
            everything = [*known[1:], *TrainingConfig.model_fields, *DataConfig.model_fields]
            raise InputError(f"{where}, {model}: {no_such_option(key, everything)}")


def _at_home(key: str, tree: Tree, where: str) -> str:
    """Where an option that stands outside all sections belongs, in words."""
    about = tree.get("model")
    model = about.get("name", "ncgcn") if isinstance(about, dict) else "ncgcn"
    _check_known([key], model, where)
    return f"{where}: {key} belongs under a section, [{placed(key)[0]}]."


def placed(key: str) -> tuple[str, str]:
    """Section and option of a setting's key."""
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
