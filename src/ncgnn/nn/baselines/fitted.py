"""What every model has to beat: class shares, features alone, labels of neighbors alone.

The three are fitted in one go: a stage of one epoch, in which no step of an optimizer is taken.
What they find is kept in parameters and buffers, as by every other model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import torch
from pydantic import Field
from torch import nn

from ncgnn.nn.base import Model, ModelOptions, parse_options
from ncgnn.nn.inputs import as_nodes, select_rows
from ncgnn.nn.layers import Term, product

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import Constant, GraphInputs


class Majority(Model):
    """The class shares of the training nodes, the same for every node, whatever it is.

    logits_c = log((n_c + 1) / (n + C)) for n_c training nodes of class c: with one node more per
    class, so that one without any is unlikely and not impossible.
    """

    paper = "Class shares of the training nodes"
    edges = "none"
    memory = "classes"
    uses_features = False
    fits_at_once = True
    reach = 0

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        super().__init__()
        parse_options(self.Options, options)
        self.register_buffer("log_shares", torch.zeros(num_classes))
        self.log_shares: torch.Tensor

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """The same row for all nodes."""
        return self.log_shares.repeat(inputs.num_nodes, 1)

    @torch.no_grad()
    def begin_phase(
        self, number: int, inputs: GraphInputs, train: torch.Tensor, labels: torch.Tensor
    ) -> None:
        """Count the classes of the training nodes."""
        self.log_shares.copy_(count_shares(labels, len(self.log_shares)).log())


def count_shares(labels: torch.Tensor, num_classes: int) -> torch.Tensor:
    """The share of every class, counted with one node more of each, in float64."""
    counts = torch.bincount(labels, minlength=num_classes).double() + 1
    return counts / counts.sum()


class LogisticOptions(ModelOptions):
    """Options of logistic regression."""

    penalty: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """Weight of ½‖W‖² beside the sum of the training nodes' cross-entropies; it is 1/C in
    scikit-learn.
    """
    iterations: Annotated[int, Field(ge=1)] = 200
    """Upper limit of the number of steps of L-BFGS."""
    tolerance: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1e-4
    """It ends where a step improves the objective by less than this share of it."""


class Logistic(Model):
    r"""Multinomial logistic regression on a node's own features, which sees no neighbor.

    .. math::

        \min_{W, b} \sum_{i \in \text{train}} \text{CE}(x_i W + b, y_i)
            + \tfrac{λ}{2} \lVert W \rVert^2
    """

    title = "Logistic regression"
    paper = (
        "Cox, The Regression Analysis of Binary Sequences, Journal of the Royal Statistical "
        "Society B 20, 1958; with a class each: multinomial"
    )
    family = "features"
    edges = "none"
    memory = "features × classes"
    fits_at_once = True
    computes_all = False
    maskable = True
    reach = 0
    Options = LogisticOptions

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        super().__init__()
        self.options = parse_options(self.Options, options)
        self.weight = nn.Parameter(torch.zeros(num_features, num_classes))
        self.bias = nn.Parameter(torch.zeros(num_classes))

    def node_logits(
        self,
        inputs: GraphInputs,
        group: torch.Tensor | None,
        key: DropoutKey | None,
        nodes: torch.Tensor | None,
    ) -> torch.Tensor:
        """X·W + b for the given nodes, None = all."""
        features = Term(inputs.features)
        if nodes is not None:
            features = features.rows(as_nodes(nodes, inputs.everyone))
        return product(features, self.weight) + self.bias

    @torch.no_grad()
    def begin_phase(
        self, number: int, inputs: GraphInputs, train: torch.Tensor, labels: torch.Tensor
    ) -> None:
        """Find the minimum by L-BFGS, from zero."""
        features = select_rows(inputs.features, train)
        problem = _Problem(features, labels, self.weight.shape[1], self.options.penalty)
        weight, bias = problem.solve(self.options.iterations, self.options.tolerance)
        self.weight.copy_(weight)
        self.bias.copy_(bias)


class _Problem:
    """The objective of logistic regression, per training node, and its minimum.

    L-BFGS works on W scaled by the root of about its second derivatives, λ + κ·Σᵢ xᵢⱼ² for column j
    with κ = p(1 - p) at p = 1/C, which takes it a fraction of the steps. Columns that are 0 in all
    training nodes have weights of 0 and no part in it.
    """

    def __init__(
        self, features: Constant, labels: torch.Tensor, num_classes: int, penalty: float
    ) -> None:
        self.labels, self.penalty, self.classes = labels, penalty, num_classes
        self.width, self.count = int(features.shape[1]), len(labels)
        if isinstance(features, torch.Tensor):
            self.used = torch.arange(self.width, device=features.device)
            self.features: Constant = features
            squares = features.double().square().sum(0)
        else:
            self.used = torch.unique(features.pattern.col).to(torch.int64)
            self.features = features.columns(self.used)
            squared = self.features.values.double().square()
            squares = squared.new_zeros(len(self.used))
            squares.index_add_(0, self.features.pattern.col.to(torch.int64), squared)
        curvature = (num_classes - 1) / num_classes**2
        scale = torch.cat([penalty + curvature * squares, squares.new_tensor([self.count / 4])])
        self.scale = scale.clamp_min(1e-12).rsqrt()[:, None]

    def solve(self, iterations: int, tolerance: float) -> tuple[torch.Tensor, torch.Tensor]:
        """W [features, classes] and b [classes] in float64."""
        from scipy.optimize import minimize
        from threadpoolctl import threadpool_limits

        start = np.zeros(len(self.scale) * self.classes)
        limits: Any = {"maxiter": iterations, "ftol": tolerance, "gtol": 1e-12}
        with threadpool_limits(1, "blas"):  # rounding depends on the number of threads
            found: Any = minimize(self.evaluate, start, jac=True, method="L-BFGS-B", options=limits)
        both = self._unscale(found.x)
        weight = both.new_zeros(self.width, self.classes)
        return weight.index_copy(0, self.used, both[:-1]), both[-1]

    def evaluate(self, point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """The objective and its gradient at a point, in scaled coordinates."""
        both = self._unscale(point)
        weight, dtype = both[:-1], self.features.dtype
        logits = (self.features @ weight.to(dtype)).double() + both[-1]
        log_total = torch.logsumexp(logits, 1)
        own = logits.gather(1, self.labels[:, None])[:, 0]
        value = _add_up(log_total - own) + self.penalty / 2 * _add_up(weight.square())
        slope = (logits - log_total[:, None]).exp_()
        slope[torch.arange(self.count, device=slope.device), self.labels] -= 1
        gradient = torch.cat([self._back(slope.to(dtype)).double(), slope.sum(0)[None]])
        gradient[:-1] += self.penalty * weight
        gradient *= self.scale / self.count
        return value / self.count, gradient.cpu().numpy().ravel()

    def _unscale(self, point: NDArray[np.float64]) -> torch.Tensor:
        """Weights, and the bias in the last row, at a point in scaled coordinates."""
        rows = torch.from_numpy(point).to(self.scale.device).view(-1, self.classes)
        return rows * self.scale

    def _back(self, slope: torch.Tensor) -> torch.Tensor:
        """Xᵀ·G."""
        features = self.features
        if isinstance(features, torch.Tensor):
            return features.t() @ slope
        return features.t_matmul(slope)


def _add_up(values: torch.Tensor) -> float:
    """The sum of all values, whose rounding, unlike that of torch, depends on no threads."""
    return float(values.cpu().numpy().sum())


class PropagationOptions(ModelOptions):
    """Options of label propagation."""

    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.9
    """Share that a node's beliefs take from its neighbors in every step."""
    steps: Annotated[int, Field(ge=1)] = 10
    """How often beliefs are passed on."""


#: Weight of class shares in all answers, so that no class is impossible.
_SHARES = 0.01


class Propagation(Model):
    r"""Label propagation (Zhou et al., NeurIPS 2003): labels along edges, and no features.

    .. math::

        F ← α S F + (1 - α) Y, \qquad S = D^{-½} A D^{-½},

    ``steps`` times from F = Y, which has a one at the label of every training node. Edges count in
    both directions, with their weights. The answer is F, scaled to sum to 1, with 1 % of the class
    shares of training nodes, which are all that is left where no label arrives. The answer for a
    training node includes its own label. Features play no part.
    """

    title = "Label propagation"
    paper = "Zhou et al., Learning with Local and Global Consistency, NeurIPS 2003"
    family = "spatial"
    edges = "both"
    memory = "nodes × classes"
    uses_weights = True
    uses_features = False
    fits_at_once = True
    Options = PropagationOptions

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        super().__init__()
        self.options = parse_options(self.Options, options)
        self.register_buffer("shares", torch.full((num_classes,), 1 / num_classes))
        self.shares: torch.Tensor
        self.reach = self.options.steps + 1  # one more for the degrees of the farthest

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logarithms of the propagated labels."""
        labels = one_hot_known(inputs, len(self.shares))
        (operator,) = inputs.gcn_operators("both", self_loops=False)
        alpha, beliefs = self.options.alpha, labels
        for _ in range(self.options.steps):
            beliefs = alpha * (operator @ beliefs) + (1 - alpha) * labels
        total = beliefs.sum(1, keepdim=True)
        beliefs = torch.where(total > 0, beliefs / total, self.shares)
        return torch.log((1 - _SHARES) * beliefs + _SHARES * self.shares)

    @torch.no_grad()
    def begin_phase(
        self, number: int, inputs: GraphInputs, train: torch.Tensor, labels: torch.Tensor
    ) -> None:
        """Count the classes of the training nodes."""
        self.shares.copy_(count_shares(labels, len(self.shares)))


def one_hot_known(inputs: GraphInputs, num_classes: int) -> torch.Tensor:
    """A one at the label of every node whose label is known [n, classes]."""
    rows = torch.zeros(inputs.num_nodes, num_classes, dtype=inputs.dtype, device=inputs.device)
    nodes = torch.nonzero(inputs.known >= 0).flatten()
    rows[nodes, inputs.known[nodes]] = 1
    return rows
