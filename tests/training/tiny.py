from __future__ import annotations

from ncgnn.training import RunConfig, make_config


def tiny_config(model: str = "ncgcn", seed: int = 0, **settings: object) -> RunConfig:
    chosen = {"hidden": 16, "epochs": 12, "learning_rate": 0.05} | settings
    return make_config(dataset="digits", model=model, seed=seed, settings=chosen)
