"""The paper's own tables and figures, made from runs."""

from ncgnn.paper.request import Request, Target
from ncgnn.paper.targets import (
    Reproduction,
    is_timed,
    paper_figure,
    paper_grids,
    reproduce,
    request_for,
    takes_stored,
    target,
    targets,
    write_reproduction,
)

__all__ = [
    "Reproduction",
    "Request",
    "Target",
    "is_timed",
    "paper_figure",
    "paper_grids",
    "reproduce",
    "request_for",
    "takes_stored",
    "target",
    "targets",
    "write_reproduction",
]
