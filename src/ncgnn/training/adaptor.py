"""A trained model as PyG's ``torch_geometric.explain.Explainer`` takes it."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ncgnn._memory import available_gib
from ncgnn.errors import InputError
from ncgnn.nn import MaskedInputs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ncgnn.training.inference import View

_GIB = 2**30


class ExplainerModel(nn.Module):
    """What ``model(x, edge_index)`` is to PyG's explainers, for a trained model on one graph.

    The logits are those of the model. They have gradients to the features and to the mask of edges
    that explainers set: every message is multiplied by the mask after normalization, as in PyG's
    own layers, and self-loops that the model adds have none. Weights and directions of edges, and
    the groups of separated models, are those of the graph.

    Use it with its own ``x`` and ``edge_index``::

        adaptor = trained.for_explainer(node)
        explainer = Explainer(
            model=adaptor,
            algorithm=GNNExplainer(epochs=100),
            explanation_type="model",
            node_mask_type="attributes",
            edge_mask_type="object",
            model_config=adaptor.model_config,
        )
        explanation = explainer(adaptor.x, adaptor.edge_index, index=adaptor.index)

    Args:
        view: What the model sees of the graph, or of the surroundings of one node.
        ids: The ids of all nodes of the graph.
        single: Whether the view is that of one node.

    Attributes:
        x: The features as the model sees them, dense [n, features].
        edge_index: The edges source → target [2, E], without self-loops.
        ids: The ids of the nodes, in the order of the rows of ``x``.
        index: The row of the node that it was made for; None if it was made for all.
        model_config: What the explainer must know of the model.
    """

    def __init__(self, view: View, ids: NDArray[Any], *, single: bool) -> None:
        from torch_geometric.nn import MessagePassing

        super().__init__()
        if view.model.fits_at_once and not view.model.maskable:
            raise InputError(
                f"{view.model.title} has no gradients, which PyG's explainers follow; use "
                "trained.explain."
            )
        # A copy without gradients of its own: explanations leave the trained model as it is.
        self.model = deepcopy(view.model).requires_grad_(False)
        self._view = replace(view, model=self.model)
        self.edges = _mask_holder()()
        inputs, title = view.inputs, view.model.title
        needed = inputs.num_nodes * inputs.num_features * inputs.dtype.itemsize / _GIB
        if 3 * needed > (there := available_gib()):
            raise InputError(
                f"{inputs.num_nodes:,} nodes with {inputs.num_features:,} features need about "
                f"{3 * needed:.1f} GiB as the dense matrix that PyG's explainers take, and "
                f"{there:.1f} GiB are available; give one node, or use trained.explain."
            )
        self.x, self.edge_index = inputs.x, inputs.edge_index
        self.ids = ids[view.nodes]
        self.index: int | None = int(view.wanted[0]) if single else None
        self.model_config: dict[str, str] = {
            "mode": "multiclass_classification",
            "task_level": "node",
            "return_type": "raw",
        }
        layers = any(isinstance(part, MessagePassing) for part in self.model.modules())
        self._refusal = ""
        if self.model.edges == "none":
            self._refusal = f"{title} looks at no edges; explain its features alone, with "
            self._refusal += "edge_mask_type=None."
        elif not self.model.maskable and not (layers and self.model.rule is None):
            self._refusal = (
                f"{title} does not let its edges be masked, so that there are no gradients to "
                "them; use edge_mask_type=None, trained.explain, or a model such as gcn, sage, "
                "gat, tuned-sage or ncsage."
            )
        self.eval()  # explainers put back the mode that they find

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        """Logits of every node [n, classes].

        Args:
            x: Features in place of :attr:`x`, for example masked ones.
            edge_index: :attr:`edge_index`; edges are left out by a mask.
        """
        given = edge_index is self.edge_index
        if not given and not torch.equal(edge_index, self.edge_index):
            raise InputError(
                "edge_index must be that of the adaptor, as weights, directions and groups belong "
                "to it; set a mask to leave edges out."
            )
        if x.shape != self.x.shape:
            raise InputError(f"x must be {list(self.x.shape)}; got {list(x.shape)}.")
        return self._view.logits(MaskedInputs(self._view.inputs, x, self._mask()))

    def _mask(self) -> torch.Tensor | None:
        """The number that each message is multiplied by; None where no mask is set."""
        edges: Any = self.edges
        if not edges.explain or edges._edge_mask is None:
            return None
        if self._refusal:
            raise InputError(self._refusal)
        mask: torch.Tensor = edges._edge_mask
        return mask.sigmoid() if edges._apply_sigmoid else mask


@cache
def _mask_holder() -> type[Any]:
    """The layer on which explainers set the mask; it passes no messages itself.

    It is a class of its own, because PyG writes the code of a class when it is first used.
    """
    from torch_geometric.nn import MessagePassing

    class MaskHolder(MessagePassing):
        """Holds a mask."""

    return MaskHolder
