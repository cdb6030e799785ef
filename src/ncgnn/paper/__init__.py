"""The paper's own tables and figures, made from runs."""

from ncgnn.paper.plans.pages import PLANS, plan, write_results
from ncgnn.paper.plans.store import Plan, Store
from ncgnn.paper.request import Request, Target, published
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
    "PLANS",
    "Plan",
    "Reproduction",
    "Request",
    "Store",
    "Target",
    "is_timed",
    "paper_figure",
    "paper_grids",
    "plan",
    "published",
    "reproduce",
    "request_for",
    "takes_stored",
    "target",
    "targets",
    "write_reproduction",
    "write_results",
]
