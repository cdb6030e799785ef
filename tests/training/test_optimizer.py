"""Adam without torch's compiler."""

from __future__ import annotations

import subprocess
import sys

import torch

from ncgnn.training.trainer import EagerAdam

LOADED_AFTER_TRAINING = """
import sys
import tempfile
from pathlib import Path
from ncgnn.training import make_config, train_run

config = make_config(dataset="digits", model="ncgcn", settings={"hidden": 4, "epochs": 2})
with tempfile.TemporaryDirectory() as folder:
    train_run(config, Path(folder))
print(*sys.modules)
"""


def trained(kind, steps):
    torch.manual_seed(0)
    weights = [torch.nn.Parameter(torch.randn(5, 3)), torch.nn.Parameter(torch.randn(3))]
    groups = [{"params": weights[:1], "weight_decay": 0.1}, {"params": weights[1:]}]
    optimizer = kind(groups, lr=0.05, fused=True)
    inputs = torch.randn(7, 5)
    for step in range(steps):
        if step == steps // 2:  # as a checkpoint does
            state = optimizer.state_dict()
            optimizer = kind(groups, lr=0.05, fused=True)
            optimizer.load_state_dict(state)
        optimizer.zero_grad(set_to_none=True)
        (inputs @ weights[0] + weights[1]).square().sum().backward()
        optimizer.step()
    return weights, optimizer.state_dict()


def test_every_step_is_that_of_torch():
    ours, state = trained(EagerAdam, 9)
    theirs, expected = trained(torch.optim.Adam, 9)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert state["param_groups"] == expected["param_groups"]
    for number, moments in expected["state"].items():
        assert all(torch.equal(state["state"][number][name], moments[name]) for name in moments)


def test_a_step_leaves_the_gradient_mode_as_it_was():
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = EagerAdam([weight], lr=0.1)
    weight.sum().backward()
    optimizer.step()
    assert torch.is_grad_enabled()
    assert weight.is_leaf


def test_training_does_not_import_the_compiler():
    command = [sys.executable, "-c", LOADED_AFTER_TRAINING]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "torch.optim" in loaded
    assert "torch._dynamo" not in loaded
