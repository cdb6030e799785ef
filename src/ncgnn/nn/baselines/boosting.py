"""Gradient boosting on what is around a node, put into columns of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import torch
from pydantic import Field

from ncgnn._numba import thread_count
from ncgnn.errors import InputError
from ncgnn.nn.base import Model, ModelOptions, Rate, parse_options
from ncgnn.nn.baselines.fitted import count_shares, one_hot_known
from ncgnn.nn.baselines.trees import Trees
from ncgnn.nn.inputs import Direction, as_nodes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import Constant, GraphInputs

#: Rounds without a better likelihood of held-out nodes after which boosting ends.
_PATIENCE = 10
#: Rows of dense features that are multiplied in float64 at a time.
_ROWS = 1 << 14


class TreeOptions(ModelOptions):
    """Options of gradient boosting."""

    rounds: Annotated[int, Field(ge=1)] = 100
    """Upper limit of the number of rounds; each has a tree per class."""
    shrinkage: Annotated[float, Field(gt=0, le=1)] = 0.1
    """What the values of all leaves are multiplied by: the rate of learning."""
    leaves: Annotated[int, Field(ge=2)] = 15
    """The most leaves of a tree."""
    smallest_leaf: Annotated[int, Field(ge=1)] = 20
    """The fewest training nodes in a leaf."""
    penalty: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    """Added to the second derivatives of a leaf, which keeps the values of small ones small."""
    tried: Annotated[float, Field(gt=0, le=1)] = 0.3
    """Share of the columns that are tried for a split, drawn for every one."""
    components: Annotated[int, Field(ge=1)] = 32
    """Features with more columns than this are replaced by so many of their singular components."""
    held_out: Rate = 0.1
    """Share of the training nodes that ends boosting when it no longer helps them; 0 = none."""


class BoostingOptions(TreeOptions):
    """Options of gradient boosting on what is around a node."""

    direction: Direction = "both"
    """Which neighbors count: those at the other end of ``incoming`` edges, of edges in ``both``
    directions alike, or ``separate``: those of incoming and of outgoing edges in columns of their
    own.
    """


class Boosting(Model):
    r"""Gradient boosted trees (scikit-learn's, by histograms) on columns that describe a node.

    The columns are

    * the node's features Z: as they are, or X·V with the first ``components`` right singular
      vectors V of the features X of all nodes, where there are more columns than that;
    * their means over neighbors, P·Z, and over those of neighbors, P·P·Z, with P = D^-1 A;
    * the logarithm of one plus the degree;
    * the shares of classes among those neighbors whose label is known, which are training nodes,
      and the logarithm of one plus their number.

    ``separate`` directions have the last three twice. Weights of edges count in means, shares and
    degrees. Where a node has no neighbor, or none with a known label, values are missing, and trees
    learn where to send it.

    A training node sees the labels of training nodes around it, as every other node does, and never
    its own: A has no self-loops, and labels go one hop. So the columns of training nodes and of
    others are alike where training nodes were drawn at random.

    Of the training nodes, ``held_out`` are not trained on; boosting ends when their likelihood has
    not improved for ten rounds. Validation nodes have no part in it.
    """

    title = "Gradient boosting"
    paper = (
        "Ke et al., LightGBM: A Highly Efficient Gradient Boosting Decision Tree, NeurIPS 2017, as "
        "scikit-learn has it, on aggregates of neighbors"
    )
    family = "spatial"
    edges = "both"
    memory = "nodes × columns"
    uses_weights = True
    fits_at_once = True
    reach = 2
    Options: ClassVar[type[TreeOptions]] = BoostingOptions

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        super().__init__()
        self.options = parse_options(self.Options, options)
        if isinstance(self.options, BoostingOptions):
            self.direction = self.options.direction
        self.num_features, self.num_classes = num_features, num_classes
        width = self.options.components if num_features > self.options.components else 0
        self.register_buffer("components", torch.zeros(num_features, width))
        self.components: torch.Tensor
        self.register_buffer("shares", torch.full((num_classes,), 1 / num_classes))
        self.shares: torch.Tensor
        self.register_buffer("present", torch.ones(num_classes, dtype=torch.bool))
        self.present: torch.Tensor
        self.trees = Trees(num_classes, self.options.rounds, self.options.leaves)

    def node_logits(
        self,
        inputs: GraphInputs,
        group: torch.Tensor | None,
        key: DropoutKey | None,
        nodes: torch.Tensor | None,
    ) -> torch.Tensor:
        """Logarithms of probabilities; trees are applied to the given nodes alone."""
        columns = self.describe(inputs)
        if nodes is not None:
            columns = columns.index_select(0, as_nodes(nodes, inputs.everyone))
        # Classes without a training node have no trees; their share stands for them.
        sums = self.trees(columns).masked_fill(~self.present, -torch.inf)
        known = torch.log_softmax(sums, 1).to(inputs.dtype)
        return torch.where(self.present, known, self.shares.log())

    @torch.no_grad()
    def describe(self, inputs: GraphInputs) -> torch.Tensor:
        """The columns of every node, in float32."""
        own = self._reduce(inputs.features).to(inputs.dtype)
        labels = one_hot_known(inputs, self.num_classes)
        found = [own]
        messages = inputs.messages(self.direction or "both")
        means = inputs.mean_operators(self.direction or "both")
        for matrix, mean in zip(messages, means, strict=True):
            degree = matrix.row_sums()[:, None]
            around = mean @ own
            found += [_where(degree > 0, part) for part in (around, mean @ around)]
            counts = matrix @ labels
            total = counts.sum(1, keepdim=True)
            found += [_where(total > 0, counts / total), torch.log1p(degree), torch.log1p(total)]
        return torch.cat(found, 1).float()

    def _reduce(self, features: Constant) -> torch.Tensor:
        """The features themselves, or their components."""
        if features.shape[1] != self.num_features:
            raise InputError(
                f"the model takes {self.num_features} features; the graph has {features.shape[1]}."
            )
        if not self.components.shape[1]:
            return features if isinstance(features, torch.Tensor) else features.to_dense()
        if not isinstance(features, torch.Tensor):
            return features @ self.components
        # Rounded from float64, so that a row hardly depends on how many others there are.
        vectors = self.components.double()
        parts = [part.double() @ vectors for part in features.split(_ROWS)]
        return torch.cat(parts).to(features.dtype)

    @torch.no_grad()
    def begin_phase(
        self, number: int, inputs: GraphInputs, train: torch.Tensor, labels: torch.Tensor
    ) -> None:
        """Find the components, and fit trees to the training nodes."""
        if self.components.shape[1]:
            self.components.copy_(_find_components(inputs.features, self.components.shape[1]))
        self.shares.copy_(count_shares(labels, self.num_classes))
        self.present.copy_(torch.bincount(labels, minlength=self.num_classes) > 0)
        columns = self.describe(inputs).index_select(0, train).cpu().numpy()
        self._fit(columns, labels.cpu().numpy())

    def _fit(self, columns: NDArray[np.float32], labels: NDArray[np.int64]) -> None:
        """Fit trees to rows with labels."""
        from sklearn.ensemble import HistGradientBoostingClassifier
        from threadpoolctl import threadpool_limits

        options = self.options
        if len(np.unique(labels)) == 1:
            self.trees.store([], np.zeros(self.num_classes), [])
            return
        held = _hold_out(labels, options.held_out)
        stops = bool(held.any())
        kind: Any = HistGradientBoostingClassifier
        fitted = kind(
            max_iter=options.rounds,
            learning_rate=options.shrinkage,
            max_leaf_nodes=options.leaves,
            min_samples_leaf=options.smallest_leaf,
            l2_regularization=options.penalty,
            max_features=options.tried,
            early_stopping=stops,
            n_iter_no_change=_PATIENCE,
            random_state=0,
        )
        apart = {"X_val": columns[held], "y_val": labels[held]} if stops else {}
        rows = columns[~held]
        rows[:, np.isnan(rows).all(axis=0)] = 0  # scikit-learn wants a value in every column
        with threadpool_limits(thread_count(), "openmp"):
            fitted.fit(rows, labels[~held], **apart)
        # Two classes share a tree, which says how much more probable the second one is.
        places = fitted.classes_[1:] if len(fitted.classes_) == 2 else fitted.classes_
        start = np.zeros(self.num_classes)
        start[places] = np.ravel(fitted._baseline_prediction)
        self.trees.store(fitted._predictors, start, places)


class FeatureBoosting(Boosting):
    """The same trees on a node's own features alone: what the graph adds is told beside it."""

    title = "Feature boosting"
    paper = (
        "Ke et al., LightGBM: A Highly Efficient Gradient Boosting Decision Tree, NeurIPS 2017, as "
        "scikit-learn has it"
    )
    family = "features"
    edges = "none"
    uses_weights = False
    reach = 0
    Options = TreeOptions

    @torch.no_grad()
    def describe(self, inputs: GraphInputs) -> torch.Tensor:
        """A node's own features, or their components, in float32."""
        return self._reduce(inputs.features).float()


def _find_components(features: Constant, width: int) -> torch.Tensor:
    """The first right singular vectors of the features [features, width]; always the same ones.

    Where there are fewer nodes than that, the vectors that they cannot tell are 0.
    """
    from sklearn.decomposition import TruncatedSVD
    from threadpoolctl import threadpool_limits

    if isinstance(features, torch.Tensor):
        matrix: Any = features.numpy(force=True)
    else:
        matrix = features.to_scipy(copy=False)
    known: Any = TruncatedSVD(width, n_iter=4, random_state=0)
    with threadpool_limits(1, "blas"):  # rounding depends on the number of threads
        known.fit(matrix)
    found = torch.zeros(int(matrix.shape[1]), width)
    vectors = torch.from_numpy(known.components_.T.copy())
    found[:, : vectors.shape[1]] = vectors
    return found


def _hold_out(labels: NDArray[np.int64], share: float) -> NDArray[np.bool_]:
    """The rows that end boosting: the same share of every class, always the same ones."""
    held = np.zeros(len(labels), dtype=bool)
    order = np.random.default_rng(0).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    first = np.searchsorted(labels[order], labels[order])
    sizes = np.bincount(labels)[labels[order]]
    held[order] = np.arange(len(labels)) - first < np.floor(share * sizes)
    return held


def _where(holds: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Values where something holds, elsewhere none."""
    return torch.where(holds, values, torch.nan)
