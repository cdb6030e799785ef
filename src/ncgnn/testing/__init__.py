"""Checks that a layer or a model of your own can be trusted with separated learning.

>>> from torch_geometric.nn import SAGEConv
>>> from ncgnn.testing import check_backbone
>>> check_backbone(SAGEConv)

They need no test framework: what does not hold is an ``AssertionError`` that says so.
"""

from ncgnn.testing.backbone import check_backbone
from ncgnn.testing.model import check_model

__all__ = [
    "check_backbone",
    "check_model",
]
