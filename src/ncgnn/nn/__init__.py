"""Building blocks of models."""

from ncgnn.nn._dropout import DropoutKey, relu_dropout

__all__ = ["DropoutKey", "relu_dropout"]
