"""Separated models against dense matrices."""

from __future__ import annotations

import pytest
import torch
from dense_reference import reference_logits
from drawn_graphs import drawn_graph, groups_of, model_for

from ncgnn.nn import inputs as _inputs
from ncgnn.nn.separated.channels import SEPARATIONS
from ncgnn.sparse.matrix import ConstantSparse

BACKBONES = ("gcn", "sage")
both = pytest.mark.parametrize("backbone", BACKBONES)
every_mode = pytest.mark.parametrize("separation", SEPARATIONS)


def test_the_modes_are_those_that_the_reference_knows():
    assert set(SEPARATIONS) == {"strict", "source", "renormalized", "target-only", "none"}


@every_mode
@both
@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize("activation", [False, True])
@pytest.mark.parametrize("sparse", [True, False])
def test_logits_are_those_of_dense_matrices(separation, backbone, self_loops, activation, sparse):
    options = {"self_loops": self_loops, "activation": activation}
    for seed, directed in enumerate([True, False]):
        drawn = drawn_graph(seed, directed=directed, sparse=sparse)
        inputs = drawn.inputs()
        assert isinstance(inputs.features, ConstantSparse) == sparse
        for group, groups in groups_of(drawn.num_nodes, seed).values():
            model = model_for(
                16, groups=groups, backbone=backbone, separation=separation, **options
            )
            with torch.no_grad():
                expected = reference_logits(
                    model, backbone, separation, drawn.A, drawn.X, group, **options
                )
                assert (model(inputs, group) - expected).abs().max() < 1e-9


@every_mode
@both
@pytest.mark.parametrize("self_loops", [True, False])
def test_separate_directions_and_weights_of_edges(separation, backbone, self_loops):
    options = {"self_loops": self_loops, "activation": True}
    for seed, weighted in enumerate([True, False]):
        drawn = drawn_graph(seed, sparse=seed == 0, weighted=weighted)
        inputs = drawn.inputs()
        for direction in ("separate", "incoming"):
            for group, groups in groups_of(drawn.num_nodes, seed).values():
                model = model_for(
                    16,
                    groups=groups,
                    backbone=backbone,
                    separation=separation,
                    direction=direction,
                    **options,
                )
                expected = reference_logits(
                    model,
                    backbone,
                    separation,
                    drawn.A,
                    drawn.X,
                    group,
                    separate=direction == "separate",
                    **options,
                )
                found = model(inputs, group)
                assert (found - expected).abs().max() < 1e-9
                parameters = list(model.parameters())
                mine, theirs = (
                    torch.autograd.grad(logits.square().sum(), parameters, materialize_grads=True)
                    for logits in (found, expected)
                )
                for one, other in zip(mine, theirs, strict=True):
                    assert torch.allclose(one, other, rtol=1e-7, atol=1e-9)


@every_mode
@both
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("which", ["mixed", "three", "all high"])
def test_gradients_are_those_of_dense_matrices(separation, backbone, sparse, which):
    drawn = drawn_graph(5, sparse=sparse)
    group, groups = groups_of(drawn.num_nodes)[which]
    model = model_for(16, groups=groups, backbone=backbone, separation=separation, activation=True)
    weights = torch.randn(drawn.num_nodes, 3, dtype=torch.float64)
    parameters = dict(model.named_parameters())
    expected_logits = reference_logits(
        model,
        backbone,
        separation,
        drawn.A,
        drawn.X,
        group,
        self_loops=True,
        activation=True,
    )
    expected = torch.autograd.grad(
        (expected_logits * weights).sum(), list(parameters.values()), materialize_grads=True
    )
    found = torch.autograd.grad(
        (model(drawn.inputs(), group) * weights).sum(),
        list(parameters.values()),
        materialize_grads=True,
    )
    for name, mine, theirs in zip(parameters, found, expected, strict=True):
        assert (mine - theirs).abs().max() < 1e-9, name


@every_mode
@both
def test_it_does_not_matter_whether_weights_or_neighbours_come_first(
    separation, backbone, monkeypatch
):
    drawn = drawn_graph(2)
    group, _ = groups_of(drawn.num_nodes)["mixed"]
    model = model_for(16, backbone=backbone, separation=separation)
    logits = model(drawn.inputs(), group)
    monkeypatch.setattr(_inputs, "MOST_ENTRIES", -1)
    assert (model(drawn.inputs(), group) - logits).abs().max() < 1e-9


@every_mode
@both
def test_single_precision_is_close_to_double_precision(separation, backbone):
    drawn = drawn_graph(3)
    group, _ = groups_of(drawn.num_nodes)["mixed"]
    model = model_for(16, backbone=backbone, separation=separation)
    expected = model(drawn.inputs(), group)
    found = model.float()(drawn.inputs(torch.float32), group)
    assert found.dtype == torch.float32
    assert torch.allclose(found.double(), expected, atol=1e-4)


@every_mode
@both
@pytest.mark.parametrize("seed", range(3))
def test_renaming_nodes_renames_logits(separation, backbone, seed):
    drawn = drawn_graph(seed, sparse=seed % 2 == 0)
    group, groups = groups_of(drawn.num_nodes, seed)["three"]
    model = model_for(16, groups=groups, backbone=backbone, separation=separation)
    order = torch.randperm(drawn.num_nodes)
    expected = model(drawn.inputs(), group)[order]
    found = model(drawn.permuted(order).inputs(), group[order])
    assert (found - expected).abs().max() < 1e-9


@pytest.mark.parametrize(
    ("backbone", "separation", "same"),
    [
        *(("gcn", mode, True) for mode in ("strict", "source", "target-only")),
        *(("sage", mode, True) for mode in ("strict", "target-only")),
        # The second channel runs over all nodes: its control is not the model without it.
        *((backbone, "renormalized", False) for backbone in BACKBONES),
    ],
)
def test_where_nobody_is_confused_most_modes_are_the_model_without_separation(
    backbone, separation, same
):
    drawn = drawn_graph(1)
    plain = model_for(16, backbone=backbone, separation="none", seed=1)
    low = torch.zeros(drawn.num_nodes, dtype=torch.int64)
    two = model_for(16, backbone=backbone, separation=separation)
    with torch.no_grad():
        for s, name in ((0, "first"), (0, "second")):
            getattr(plain, name)[0].load_state_dict(getattr(two, name)[s].state_dict())
        plain.mixing.copy_(two.mixing[:1])
        plain.raw.copy_(two.raw)
        plain.readout.load_state_dict(two.readout.state_dict())
    assert torch.allclose(two(drawn.inputs(), low), plain(drawn.inputs()), atol=1e-12) == same


@every_mode
@both
def test_groups_change_logits_in_every_mode_but_none(separation, backbone):
    drawn = drawn_graph(4)
    groups = groups_of(drawn.num_nodes)
    model = model_for(16, backbone=backbone, separation=separation)
    inputs = drawn.inputs()
    one, other = (model(inputs, groups[name][0]) for name in ("mixed", "all low"))
    assert torch.equal(one, other) == (separation == "none")
