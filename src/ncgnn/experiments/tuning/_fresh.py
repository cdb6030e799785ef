"""Fresh seeds for the winner of a search, and what the search has seen of their test nodes."""

from __future__ import annotations

import glob
from itertools import count, islice
from typing import TYPE_CHECKING

from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from ncgnn.data import Split
    from ncgnn.experiments.tuning._plan import Plan
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
    from ncgnn.graph._fingerprint import fingerprint
    from ncgnn.training import RunFolder
    from ncgnn.training._folder import ENVIRONMENT

    now = fingerprint(graph)
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
