"""Models: separated learning, its backbones, and models to compare with."""

from ncgnn.nn.base import (
    GIB,
    Model,
    ModelOptions,
    Phase,
    counting_phases,
    describe_error,
    describe_unknown_option,
    parse_options,
)
from ncgnn.nn.baselines.classic import GCN, MLP, GraphSAGE
from ncgnn.nn.blocks import Block, block_hops, compute_block
from ncgnn.nn.field import ReceptiveField, nodes_around, receptive_field, subgraph
from ncgnn.nn.functional import DropoutKey, relu_dropout
from ncgnn.nn.grouping import Grouper, Grouping, GroupingRule, register_guidance
from ncgnn.nn.inputs import (
    MOST_ENTRIES,
    SPARSE_COST,
    FeatureScaling,
    GraphInputs,
    feature_shape,
    features_of,
)
from ncgnn.nn.masking import MaskedInputs, masked_row
from ncgnn.nn.minibatch import (
    LARGEST_SHARE,
    BlockMaker,
    Drawing,
    check_layered,
    compute_rows,
    infer,
    is_layered,
    layers_error,
    row_parts,
)
from ncgnn.nn.mixture import Gate, Mixture
from ncgnn.nn.registry import (
    model_class,
    model_name,
    model_names,
    register_backbone,
    register_model,
)
from ncgnn.nn.separated.backbones import LayerConstructor
from ncgnn.nn.separated.channels import SEPARATIONS, Separation
from ncgnn.nn.separated.model import NCGCN, NCSAGE, BackboneName, SeparatedGNN, SeparatedOptions

__all__ = [
    "GCN",
    "GIB",
    "LARGEST_SHARE",
    "MLP",
    "MOST_ENTRIES",
    "NCGCN",
    "NCSAGE",
    "SEPARATIONS",
    "SPARSE_COST",
    "BackboneName",
    "Block",
    "BlockMaker",
    "Drawing",
    "DropoutKey",
    "FeatureScaling",
    "Gate",
    "GraphInputs",
    "GraphSAGE",
    "Grouper",
    "Grouping",
    "GroupingRule",
    "LayerConstructor",
    "MaskedInputs",
    "Mixture",
    "Model",
    "ModelOptions",
    "Phase",
    "ReceptiveField",
    "SeparatedGNN",
    "SeparatedOptions",
    "Separation",
    "block_hops",
    "check_layered",
    "compute_block",
    "compute_rows",
    "counting_phases",
    "describe_error",
    "describe_unknown_option",
    "feature_shape",
    "features_of",
    "infer",
    "is_layered",
    "layers_error",
    "masked_row",
    "model_class",
    "model_name",
    "model_names",
    "nodes_around",
    "parse_options",
    "receptive_field",
    "register_backbone",
    "register_guidance",
    "register_model",
    "relu_dropout",
    "row_parts",
    "subgraph",
]
