"""The configuration of a run: typed, complete, and the same words everywhere."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
)

from ncgnn._typed import Typed
from ncgnn.nn._inputs import FeatureScaling
from ncgnn.training._shares import ClassShares

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
        from ncgnn.nn._models import model_class

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
    from ncgnn.nn._models import model_class
    from ncgnn.nn._options import checked, complaint

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
