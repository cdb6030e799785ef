"""First weights from an earlier run: matched by name, and nothing that was trained on is tested."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from night_tables import night, tables

import ncgnn
from ncgnn.errors import InputError
from ncgnn.nn import model_class, model_names
from ncgnn.training import find_start, load_run, make_config, point_latest, train_run
from ncgnn.training.start import _shapes, _Sizes, first_model

#: Weights of several channels side by side.
MIX_CLASSES = {"acmgcn", "gbksage", "mixture"}
OPTIONS = {"hidden": 8, "epochs": 4, "split": "stratified"}


@pytest.fixture(scope="module")
def nights():
    return night(0, 90), night(10, 120, "food tools", "new", seed=1)


@pytest.fixture(scope="module")
def first(nights):
    return ncgnn.fit(nights[0], "tuned-sage", **OPTIONS)


def test_weights_of_known_features_are_taken_over_and_others_begin_as_usual(nights, first):
    after = nights[1]
    warm = ncgnn.fit(after, "tuned-sage", **OPTIONS, start_from=first)
    cold = ncgnn.fit(after, "tuned-sage", **OPTIONS)
    start, known = warm.start, nights[0].feature_names
    assert start is not None
    assert 0 < start.features[0] < start.features[1] == after.num_features
    assert start.classes == (2, 2)
    fresh = first_model(cold.config, cold.inputs).state_dict()
    old = first.model.state_dict()
    name = next(n for n, v in fresh.items() if v.dim() == 2 and after.num_features in v.shape)
    axis = fresh[name].shape.index(after.num_features)
    for place, feature in enumerate(after.feature_names):
        taken = start.weights[name].select(axis, place)
        if feature in known:
            assert torch.equal(taken, old[name].select(axis, known.index(feature)))
        else:
            assert torch.equal(taken, fresh[name].select(axis, place))


def test_a_new_class_is_added_between_known_ones(nights, first):
    after = night(0, 120, "food toys tools")
    start = ncgnn.fit(after, "tuned-sage", **OPTIONS, start_from=first).start
    assert start.classes == (2, 3)
    old = first.model.state_dict()
    name = next(n for n, v in old.items() if v.shape == (2,))
    order = [after.class_names.index(one) for one in nights[0].class_names]
    assert torch.equal(start.weights[name][order], old[name])


def test_nothing_that_was_trained_on_is_tested_or_validated(nights, first):
    warm = ncgnn.fit(nights[1], "tuned-sage", **OPTIONS, start_from=first)
    trained_on = set(first.graph.ids[first.split.train].tolist())
    apart = np.concatenate([warm.split.val, warm.split.test])
    assert not trained_on & set(warm.graph.ids[apart].tolist())
    was = dict(zip(first.graph.ids.tolist(), first.parts.tolist(), strict=True))
    now = dict(zip(warm.graph.ids.tolist(), warm.parts.tolist(), strict=True))
    assert all(now[name] == part for name, part in was.items() if part and name in now)
    assert np.array_equal(warm.parts != "", nights[1].labels >= 0)


def test_a_node_that_was_gone_for_a_night_is_still_trained_on(nights, first):
    warm = ncgnn.fit(nights[1], "tuned-sage", **OPTIONS, start_from=first)
    back = night(0, 120, seed=2)
    third = ncgnn.fit(back, "tuned-sage", **OPTIONS, start_from=warm)
    gone = set(warm.start.learned)
    assert gone
    assert gone == {n for n in first.graph.ids[first.split.train].tolist() if int(n[1:]) < 10}
    assert gone <= set(third.graph.ids[third.split.train].tolist())
    assert not third.start.learned


def test_splits_that_the_data_state_are_refused_where_they_disagree(nights, first):
    nodes, edges = tables(0, 90)
    part = ["test" if name in set(first.graph.ids[first.split.train].tolist()) else "train"
            for name in nodes["thing"]]  # fmt: skip
    part[:12] = ["val"] * 12
    stated = ncgnn.read_tables(nodes | {"part": part}, edges, label="aisle", split="part")
    with pytest.raises(InputError, match="scores would mean nothing"):
        ncgnn.fit(stated, "tuned-sage", **(OPTIONS | {"split": "published"}), start_from=first)


def test_a_node_that_chose_the_epoch_is_not_tested(first):
    nodes, edges = tables(0, 90)
    part = {"train": "train", "val": "test", "test": "val", "": ""}
    said = [part[one] for one in first.parts.tolist()]
    stated = ncgnn.read_tables(nodes | {"part": said}, edges, label="aisle", split="part")
    wanted = f"selected by {len(first.split.val)} nodes"
    with pytest.raises(InputError, match=wanted):
        ncgnn.fit(stated, "tuned-sage", **(OPTIONS | {"split": "published"}), start_from=first)


def test_ids_of_another_type_match_nobody_and_are_refused():
    nodes, edges = tables(0, 90)
    place = {name: number for number, name in enumerate(nodes["thing"])}
    ends = {key: [place[n] for n in row] for key, row in edges.items()}
    numbers, texts = (
        ncgnn.read_tables(
            nodes | {"thing": [kind(place[name]) for name in nodes["thing"]]}, ends, label="aisle"
        )
        for kind in (int, str)
    )
    model = ncgnn.fit(numbers, "tuned-sage", **OPTIONS)
    with pytest.raises(InputError, match="one has texts as ids and the other numbers"):
        ncgnn.fit(texts, "tuned-sage", **OPTIONS, start_from=model)


def test_features_and_none_do_not_fit(nights, first):
    bare = replace(nights[1], features=None, feature_names=None)
    with pytest.raises(InputError, match="was given has features and the graph has none"):
        ncgnn.fit(bare, "tuned-sage", **OPTIONS, start_from=first)


def test_what_does_not_fit_is_refused(nights, first):
    after = nights[1]
    with pytest.raises(InputError, match="has hidden = 8, and here it is 16"):
        ncgnn.fit(after, "tuned-sage", **(OPTIONS | {"hidden": 16}), start_from=first)
    with pytest.raises(InputError, match=r"must be a run of gcn; .* is one of tuned-sage"):
        ncgnn.fit(after, "gcn", **OPTIONS, start_from=first)
    tied = ncgnn.fit(nights[0], "linkx", **OPTIONS)
    with pytest.raises(InputError, match="LINKX has weights for every node"):
        ncgnn.fit(after, "linkx", **OPTIONS, start_from=tied)
    plain = ncgnn.load("digits")
    model = ncgnn.fit(plain, "mlp", hidden=8, epochs=2)
    with pytest.raises(InputError, match="have no names to match them by"):
        ncgnn.fit(after, "mlp", hidden=8, epochs=2, start_from=model, weight_decay=0.0)


@pytest.mark.parametrize("name", model_names())
def test_of_every_model_it_is_known_which_weights_belong_to_features_and_classes(name):
    if model_class(name).tied_to or model_class(name).fits_at_once:
        pytest.skip("tied to its nodes, or fitted anew")
    config = make_config(dataset="digits", model=name)
    small, wide = _shapes(config, _Sizes(7, 5)), _shapes(config, _Sizes(8, 5))
    more = _shapes(config, _Sizes(7, 6))
    seen = set()
    for key, shape in small.items():
        for place, size in enumerate(shape):
            grown = wide[key][place] - size, more[key][place] - size
            assert {1: 7, 0: size}.get(grown[0]) == size, key
            if name not in MIX_CLASSES:
                assert {(1, 0): 7, (0, 1): 5, (0, 0): size}.get(grown) == size, key
            seen.add(grown)
    assert (1, 0) in seen
    assert ((0, 1) in seen) or name in MIX_CLASSES


def test_classes_that_are_mixed_with_others_are_refused_only_if_they_are_new(nights):
    first = ncgnn.fit(nights[0], "acmgcn", **OPTIONS)
    assert ncgnn.fit(nights[1], "acmgcn", **OPTIONS, start_from=first).start.classes == (2, 2)
    with pytest.raises(InputError, match="mixes classes with others"):
        ncgnn.fit(night(0, 120, "food toys tools"), "acmgcn", **OPTIONS, start_from=first)


@pytest.fixture
def place(nights, tmp_path):
    ncgnn.save(nights[0], tmp_path / "mine")
    return tmp_path


def config_of(place, **more):
    settings = {"hidden": 8, "epochs": 4} | more
    return make_config(dataset=str(place / "mine"), model="tuned-sage", settings=settings)


def test_a_command_that_is_given_twice_trains_once(nights, place):
    runs = place / "runs"

    def train():
        graph = ncgnn.load(place / "mine")
        config, start = find_start(config_of(place, start_from="latest"), graph, runs)
        result = train_run(config, runs, graph=graph, start=start)
        point_latest(result.folder)
        return result, start

    (one, none), (again, _) = train(), train()
    assert none is None
    assert (one.fresh, again.fresh, again.folder) == (True, False, one.folder)
    ncgnn.save(nights[1], place / "mine", force=True)
    (two, start), (again, _) = train(), train()
    assert start.run == one.folder.name
    assert (two.fresh, again.fresh, again.folder) == (True, False, two.folder)
    assert two.folder != one.folder
    assert len(list(runs.iterdir())) == 3
    assert load_run(runs / "latest").start.sha256 == start.sha256


def test_of_several_seeds_none_is_trained_twice(nights, place):
    runs = place / "runs"

    def train(seed):
        graph = ncgnn.load(place / "mine")
        wanted = config_of(place, start_from=str(runs / "latest"), seed=seed)
        config, start = find_start(wanted, graph, runs)
        result = train_run(config, runs, graph=graph, start=start)
        return result, start

    for number, graph in enumerate(nights):
        ncgnn.save(graph, place / "mine", force=True)
        results = [train(seed) for seed in (0, 1)]
        point_latest(results[1][0].folder)
        again = [train(seed) for seed in (0, 1)]
        assert not any(result.fresh for result, _ in again)
        assert [(start is None) for _, start in again] == [number == 0] * 2


def test_a_sweep_needs_the_hash(place):
    with pytest.raises(InputError, match="must be the hash of a run's weights here"):
        train_run(config_of(place, start_from="latest"), place / "runs")


def test_the_weights_are_found_by_their_hash_and_a_run_begins_the_same_again(nights, place):
    runs, other = place / "runs", place / "other"
    graph = ncgnn.load(place / "mine")
    first = train_run(config_of(place), runs, graph=graph)
    ncgnn.save(nights[1], place / "mine", force=True)
    graph = ncgnn.load(place / "mine")
    wanted = config_of(place, start_from=str(first.folder))
    config, start = find_start(wanted, graph, runs)
    one = train_run(config, runs, graph=graph, start=start)
    found = make_config(config=one.folder / "config.toml")
    assert found == config
    two = train_run(found, other, graph=graph, start=find_start(found, graph, runs)[1])
    for name in ("weights.safetensors", "result.json", "split.json"):
        assert (one.folder / name).read_bytes() == (two.folder / name).read_bytes()
    with pytest.raises(InputError, match=r"no run in .* has the weights"):
        train_run(found, place / "empty", graph=graph)
