"""Models: separated learning, its backbones, and models to compare with."""

from ncgnn.nn.base import (
    Phase,
    SeparatedOptions,
    begin_phase,
    checked,
    complaint,
    counting,
    no_such_option,
    parameter_groups,
    phases,
    with_extra_loss,
)
from ncgnn.nn.baselines.classic import GCN, MLP, GraphSAGE
from ncgnn.nn.functional import DropoutKey, relu_dropout
from ncgnn.nn.grouping import Grouper, Grouping, GroupingRule
from ncgnn.nn.inputs import FeatureScaling, GraphInputs, check_features
from ncgnn.nn.products import SharedProducts, Term
from ncgnn.nn.registry import (
    BY_NAME,
    ENTRIES,
    NCGCN,
    NCSAGE,
    ModelEntry,
    made_for,
    model_class,
    model_names,
    register_backbone,
)
from ncgnn.nn.separated.backbones import LayerConstructor
from ncgnn.nn.separated.channels import SEPARATIONS, Separation, arrange
from ncgnn.nn.separated.model import BackboneName, SeparatedGNN

__all__ = [
    "BY_NAME",
    "ENTRIES",
    "GCN",
    "MLP",
    "NCGCN",
    "NCSAGE",
    "SEPARATIONS",
    "BackboneName",
    "DropoutKey",
    "FeatureScaling",
    "GraphInputs",
    "GraphSAGE",
    "Grouper",
    "Grouping",
    "GroupingRule",
    "LayerConstructor",
    "ModelEntry",
    "Phase",
    "SeparatedGNN",
    "SeparatedOptions",
    "Separation",
    "SharedProducts",
    "Term",
    "arrange",
    "begin_phase",
    "check_features",
    "checked",
    "complaint",
    "counting",
    "made_for",
    "model_class",
    "model_names",
    "no_such_option",
    "parameter_groups",
    "phases",
    "register_backbone",
    "relu_dropout",
    "with_extra_loss",
]
