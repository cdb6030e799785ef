"""Tables, figures and reports for people; imported on use, as matplotlib and torch take seconds."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
