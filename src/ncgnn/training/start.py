"""The weights that training begins with: random ones, or those of an earlier run.

Tables that were imported again have other words, other categories and perhaps other classes.
Weights are matched by the names of features and classes; what is new begins as it would without the
earlier run. Which dimension of a parameter counts features, and which counts classes, is found out
by building the model with one more of them and comparing shapes.

A model that begins with another one's weights has learned from the labels that those were trained
on. A node whose label was trained on then may never be tested or validated now, so parts are
inherited: of a split that is drawn, every node that had a part keeps it, and only others are drawn;
a split that the data themselves state is refused where it disagrees. This holds along a chain of
runs, also for nodes that were gone for a while.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch

from ncgnn.data import Split
from ncgnn.errors import InputError
from ncgnn.nn import model_class
from ncgnn.training.config import naming_options
from ncgnn.training.folder import (
    LEARNED,
    SPLIT,
    START,
    RunFolder,
    read_tensors,
    tensors_sha256,
    write_tensors,
)
from ncgnn.training.inference import match_nodes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ncgnn.graph import Graph
    from ncgnn.nn import GraphInputs, Model
    from ncgnn.training.config import RunConfig
    from ncgnn.training.trained import TrainedModel

#: What a configuration says before the hash of the weights that a run began with.
HASH = "sha256:"

Weights = dict[str, torch.Tensor]


@dataclass(frozen=True, eq=False)
class Start:
    """The first weights of a run, from an earlier one.

    Attributes:
        sha256: Hash of the earlier run's weights.
        run: Where that run was.
        weights: All weights of the model, by name.
        split: The split, in which nodes have the parts that they had.
        learned: Ids of nodes that an earlier run was trained on and this one is not.
        features: How many features were known, and of how many.
        classes: How many classes were known, and of how many.
    """

    sha256: str
    run: str
    weights: Mapping[str, torch.Tensor]
    split: Split
    learned: tuple[Any, ...]
    features: tuple[int, int]
    classes: tuple[int, int]

    @classmethod
    def of(
        cls, earlier: TrainedModel, config: RunConfig, inputs: GraphInputs, run: str = "a model"
    ) -> Start:
        """What a run can take over from an earlier one.

        Args:
            earlier: The earlier run. If it was refitted, its weights before that count.
            config: The configuration of the new run.
            inputs: Its graph.
            run: What to call the earlier run.

        Raises:
            InputError: It is of another model, of other options, or tied to its nodes; or nodes
                that it learned from would be tested now.
        """
        _check_model(earlier, config, run)
        graph, known = inputs.graph, earlier.graph
        if (graph.features is None) != (known.features is None):
            has, lacks = (run, "the graph") if graph.features is None else ("the graph", run)
            raise InputError(
                f"start_from: {has} has features and {lacks} has none, so that no weight fits; "
                "leave start_from out."
            )
        features = _match(known.feature_names, graph.feature_names,
                          earlier.inputs.num_features, inputs.num_features,
                          "features", run)  # fmt: skip
        classes = _match(known.class_names, graph.class_names, known.num_classes,
                         graph.num_classes, "classes", run)  # fmt: skip
        split, learned = _inherit_parts(earlier, config, graph, run)
        old = {name: value.detach().cpu() for name, value in earlier.model.state_dict().items()}
        new = {k: v.cpu().clone() for k, v in first_model(config, inputs).state_dict().items()}
        matched = _match_weights(config, (features, classes), old, new)
        return cls(
            tensors_sha256(old),
            run,
            matched,
            split,
            learned,
            (len(features.new), inputs.num_features),
            (len(classes.new), graph.num_classes),
        )

    def write(self, folder: RunFolder) -> None:
        """Write all but the split, which every run has, into a run's folder."""
        said = {"run": self.run, "features": list(self.features), "classes": list(self.classes)}
        write_tensors(folder / START, self.weights, said | {"sha256": self.sha256})
        folder.write_json(LEARNED, {"learned": list(self.learned)}, durable=True)

    @classmethod
    def read(cls, folder: RunFolder) -> Start:
        """Read what a run began with."""
        weights, said = read_tensors(folder / START)
        learned: list[Any] = folder.read_json(LEARNED)["learned"]
        known, classes = (tuple(map(int, said[name])) for name in ("features", "classes"))
        split = Split.load(folder / SPLIT)
        counts = cast("tuple[int, int]", known), cast("tuple[int, int]", classes)
        return cls(str(said["sha256"]), str(said["run"]), weights, split, tuple(learned), *counts)

    def sentence(self) -> str:
        """What was taken over, for people."""
        parts = [
            f"{known:,} of {count:,} {what}"
            for what, (known, count) in (("features", self.features), ("classes", self.classes))
        ]
        return f"starts from {self.run}, which knows {' and '.join(parts)}"


def first_model(config: RunConfig, inputs: GraphInputs, start: Start | None = None) -> Model:
    """A model with its first weights, which depend on the seed alone, or on an earlier run."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        model = model_class(config.model.name).for_inputs(inputs, **config.model.options)
    if start is not None:
        model.load_state_dict(dict(start.weights))
    return model.to(device=inputs.device, dtype=inputs.dtype)


def _check_model(earlier: TrainedModel, config: RunConfig, run: str) -> None:
    """Refuse weights that mean something else, or belong to nodes."""
    then, now = (one.model_dump(mode="json") for one in (earlier.config.storable(), config))
    before, wanted = naming_options(then)["model"], naming_options(now)["model"]
    if before["name"] != wanted["name"]:
        raise InputError(
            f"start_from must be a run of {wanted['name']}; {run} is one of {before['name']}. Name "
            "another run, or leave it out."
        )
    for option in (*wanted, *before):
        if before.get(option) != wanted.get(option):
            was, here = ((one.get(option, "its default")) for one in (before, wanted))
            raise InputError(
                f"start_from must be a run of the same model with the same options; {run} has "
                f"{option} = {was}, and here it is {here}. Name another run, or leave it out."
            )
    if earlier.model.fits_at_once:
        raise InputError(
            f"{earlier.model.title} is fitted in one go, whatever the weights before; leave "
            "start_from out."
        )
    if earlier.model.tied_to:
        raise InputError(
            f"{earlier.model.title} has weights for {earlier.model.tied_to} of its graph, which "
            "mean nothing to another one; leave start_from out, or train another model."
        )


class _Matched(NamedTuple):
    """Places of what two graphs have in common, in the old one and in the new one."""

    old: NDArray[np.int64]
    new: NDArray[np.int64]
    counts: tuple[int, int]

    @property
    def is_same(self) -> bool:
        """Whether both have the same in the same order."""
        same = self.counts[0] == self.counts[1] == len(self.new)
        return same and bool((self.old == self.new).all())


def _match(
    old: Sequence[str] | None, new: Sequence[str] | None, before: int, after: int, what: str,
    run: str,
) -> _Matched:  # fmt: skip
    """What two graphs have in common, by name where there are names."""
    if old is None or new is None:
        if before != after:
            raise InputError(
                f"start_from: {run} knows {before:,} {what}, the graph has {after:,}, and they "
                "have no names to match them by; leave start_from out."
            )
        every = np.arange(after)
        return _Matched(every, every, (before, after))
    place = {name: number for number, name in enumerate(old)}
    pairs = [(place[name], number) for number, name in enumerate(new) if name in place]
    found = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return _Matched(found[:, 0], found[:, 1], (before, after))


class _Sizes(NamedTuple):
    """As much of a graph as a model needs to be built."""

    num_features: int
    num_classes: int
    num_nodes: int = 1


def _match_weights(
    config: RunConfig, matched: tuple[_Matched, _Matched], old: Weights, new: Weights
) -> Weights:
    """Old weights where they are of known features and classes, new ones elsewhere."""
    features, classes = matched
    if features.is_same and classes.is_same:
        return old
    now = _Sizes(features.counts[1], classes.counts[1])
    shapes = _shapes(config, now)
    wider = _shapes(config, now._replace(num_features=now.num_features + 1))
    more = _shapes(config, now._replace(num_classes=now.num_classes + 1))
    for name, value in new.items():
        places: list[_Matched | None] = []
        for dimension, size in enumerate(value.shape):
            by_feature = wider[name][dimension] - shapes[name][dimension]
            by_class = more[name][dimension] - shapes[name][dimension]
            if (not by_feature or features.is_same) and (not by_class or classes.is_same):
                places.append(None)
            elif (by_feature, by_class, size) == (1, 0, now.num_features):
                places.append(features)
            elif (by_feature, by_class, size) == (0, 1, now.num_classes):
                places.append(classes)
            else:
                what = "features" if by_feature else "classes"
                raise InputError(
                    f"start_from: {model_class(config.model.name).title} mixes {what} with others "
                    f"in its weights {name}, and the graph has other {what} now, so that they "
                    "cannot be matched by name; leave start_from out."
                )
        _copy_known(old[name], value, places)
    return new


def _shapes(config: RunConfig, sizes: _Sizes) -> dict[str, tuple[int, ...]]:
    """The shapes of a model's weights, without the weights."""
    kind = model_class(config.model.name)
    with torch.device("meta"):
        model = kind.for_inputs(cast("Any", sizes), **config.model.options)
    return {name: tuple(value.shape) for name, value in model.state_dict().items()}


def _copy_known(old: torch.Tensor, new: torch.Tensor, places: Sequence[_Matched | None]) -> None:
    """Copy what two tensors have in common; None stands for a dimension that they share."""
    index: list[torch.Tensor] = []
    for dimension, place in enumerate(places):
        if place is not None:
            old = old.index_select(dimension, torch.from_numpy(place.old))
        rows = torch.arange(new.shape[dimension]) if place is None else torch.from_numpy(place.new)
        shape = [1] * new.dim()
        shape[dimension] = -1
        index.append(rows.reshape(shape))
    if index:
        new[tuple(index)] = old.to(new.dtype)
    else:
        new.copy_(old)


def _inherit_parts(
    earlier: TrainedModel, config: RunConfig, graph: Graph, run: str
) -> tuple[Split, tuple[Any, ...]]:
    """The split in which nothing that was trained on is tested, and ids that stay trained on."""
    drawn, known = config.make_split(graph), earlier.graph
    old = match_nodes(known, graph)
    named = graph.node_ids is not None and known.node_ids is not None
    if not named and (old < 0).any():
        raise InputError(
            f"start_from: the nodes have no ids, so that nobody knows which ones {run} was trained "
            "on and must not be tested; leave start_from out."
        )
    if named and (graph.ids.dtype.kind == "U") != (known.ids.dtype.kind == "U"):
        raise InputError(
            f"start_from: of {run} and of the graph one has texts as ids and the other numbers, so "
            "that no node can be matched, and those that it was trained on might be tested; write "
            "ids alike, or leave start_from out."
        )
    before = np.append(earlier.parts, "")[old]
    gone: tuple[Any, ...] = () if earlier.start is None else earlier.start.learned
    places = [graph.places[name] for name in gone if name in graph.places]
    before[[place for place in places if before[place] == ""]] = "train"
    part = np.full(graph.num_nodes, "", dtype="<U5")
    for name in ("train", "val", "test"):
        part[getattr(drawn, name)] = name
    if drawn.origin == "drawn":
        part = np.where((before != "") & (graph.labels >= 0), before, part)
    elif count := _count_leaks(before, part):
        raise InputError(
            f"start_from: {run} was trained on or selected by {count:,} nodes that the "
            f"{drawn.family} split tests or validates now, so that scores would mean nothing; "
            "leave start_from out."
        )
    parts = (np.flatnonzero(part == name) for name in ("train", "val", "test"))
    split = Split(drawn.family, drawn.origin, drawn.seed, *parts)
    if not named:
        return split, ()
    learned = {*known.ids[earlier.split.train].tolist(), *gone}
    learned -= set(graph.ids[split.train].tolist())
    return split, tuple(sorted(learned))


def _count_leaks(before: NDArray[np.str_], now: NDArray[np.str_]) -> int:
    """Nodes that were trained on and are kept apart now, or that chose the epoch and are tested."""
    trained = (before == "train") & np.isin(now, ("val", "test"))
    return int((trained | ((before == "val") & (now == "test"))).sum())
