"""What stands below a reproduced table or figure."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ncgnn.paper.request import Request
from ncgnn.paper.targets import _runs


@pytest.mark.parametrize(("models", "said"), [(("gcn",), "Stratified split, seeds 0, 3"), ((), "")])
def test_figures_of_runs_name_split_and_seeds(models, said):
    request = Request(("digits",), models, seeds=(0, 3), split="stratified")
    made = SimpleNamespace(target=SimpleNamespace(models=models), request=request)
    assert _runs(made) == said
