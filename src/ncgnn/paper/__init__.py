"""The paper's own tables and figures, made from runs, and the plans of runs behind RESULTS.md."""

from ncgnn.paper.plans.pages import plan, plan_names, write_results
from ncgnn.paper.plans.store import Plan, Store
from ncgnn.paper.printed import published
from ncgnn.paper.targets import (
    Reproduction,
    Request,
    Row,
    Target,
    reproduce,
    request_for,
    target,
    target_names,
)

__all__ = [
    "Plan",
    "Reproduction",
    "Request",
    "Row",
    "Store",
    "Target",
    "plan",
    "plan_names",
    "published",
    "reproduce",
    "request_for",
    "target",
    "target_names",
    "write_results",
]
