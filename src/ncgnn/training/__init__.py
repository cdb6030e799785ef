"""Training: the algorithm, runs that can be interrupted, and what comes of them."""

from typing import TYPE_CHECKING

from ncgnn._lazy import lazy_exports

if TYPE_CHECKING:
    from ncgnn._memory import keep_freed_memory
    from ncgnn.training._algorithm import Trainer, TrainingError
    from ncgnn.training._config import DataConfig, ModelConfig, RunConfig, TrainingConfig
    from ncgnn.training._config_file import ConfigFile
    from ncgnn.training._fit import fit
    from ncgnn.training._folder import RunFolder
    from ncgnn.training._presets import (
        has_preset,
        make_config,
        preset,
        read_config_file,
        search_space,
    )
    from ncgnn.training._run import RunResult, train_run
    from ncgnn.training._saved import load_run
    from ncgnn.training._scores import scores
    from ncgnn.training._state import State
    from ncgnn.training._summary import Spread, Summary, summary
    from ncgnn.training._tensors import DamagedFileError
    from ncgnn.training._trained import TrainedModel

__all__ = [
    "ConfigFile",
    "DamagedFileError",
    "DataConfig",
    "ModelConfig",
    "RunConfig",
    "RunFolder",
    "RunResult",
    "Spread",
    "State",
    "Summary",
    "TrainedModel",
    "Trainer",
    "TrainingConfig",
    "TrainingError",
    "fit",
    "has_preset",
    "keep_freed_memory",
    "load_run",
    "make_config",
    "preset",
    "read_config_file",
    "scores",
    "search_space",
    "summary",
    "train_run",
]

_MODULES = {
    "_algorithm": ("Trainer", "TrainingError"),
    "_config": ("DataConfig", "ModelConfig", "RunConfig", "TrainingConfig"),
    "_config_file": ("ConfigFile",),
    "_fit": ("fit",),
    "_folder": ("RunFolder",),
    "_presets": ("has_preset", "make_config", "preset", "read_config_file", "search_space"),
    "_run": ("RunResult", "train_run"),
    "_saved": ("load_run",),
    "_scores": ("scores",),
    "_state": ("State",),
    "_summary": ("Spread", "Summary", "summary"),
    "_tensors": ("DamagedFileError",),
    "_trained": ("TrainedModel",),
}
__getattr__, __dir__ = lazy_exports(
    __name__,
    {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}
    | {"keep_freed_memory": "ncgnn._memory"},
)
