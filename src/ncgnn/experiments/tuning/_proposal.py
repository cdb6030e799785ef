"""Which values a trial takes: what Optuna proposes, as long as that was not tried before."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from optuna.trial import FrozenTrial

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
