"""Separated learning for graphs with confused nodes.

>>> import ncgnn
>>> graph = ncgnn.load("digits")
>>> ncgnn.neighborhood_confusion(graph).shape
(1797,)
"""

import lazy_loader

from ncgnn._version import __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]
