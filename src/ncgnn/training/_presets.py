"""Configurations that ship with the package: what the paper found best, or validation did here."""

from __future__ import annotations

import tomllib
import warnings
from copy import deepcopy
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncgnn.errors import InputError, NcgnnWarning
from ncgnn.training._config import DataConfig, RunConfig, TrainingConfig, resolved
from ncgnn.training._config_file import ConfigFile, Tree, located
from ncgnn.training._toml import read_toml

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    from ncgnn.nn._models import model_class

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
        raise InputError("say which graph: --dataset NAME, or dataset = … under [data].")
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
    from ncgnn.nn._models import model_class
    from ncgnn.nn._options import no_such_option

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
