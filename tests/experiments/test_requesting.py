"""What may be asked of a table or figure, and what is said of the rest."""

from __future__ import annotations

import pytest

from ncgnn.errors import DataNotFoundError, InputError, UnknownNameError
from ncgnn.experiments import reproduce, request_for
from ncgnn.report import paper_grids


def test_data_sets_that_are_not_at_hand_are_left_out(monkeypatch, tmp_path):
    from ncgnn.experiments import _requesting

    def look(dataset, folder, download=True):
        if dataset != "digits":
            raise DataNotFoundError(f"{dataset} is not at hand")

    monkeypatch.setattr(_requesting, "_look", look)
    request, absent = request_for("table1", datasets=["digits", "penn94"], data_dir=tmp_path)
    assert request.datasets == ("digits",)
    assert list(absent) == ["penn94"]
    with pytest.raises(InputError, match="--data-dir"):
        request_for("table1", datasets=["penn94"])


def test_unknown_models_are_named():
    with pytest.raises(UnknownNameError, match="gcn"):
        request_for("table1", datasets=["digits"], models=["gnc"])


@pytest.mark.parametrize("key", ["split", "data.split", "name", "seed"])
def test_what_a_table_says_of_itself_is_not_a_setting(key):
    with pytest.raises(InputError, match="is said with --"):
        request_for("table1", datasets=["digits"], models=["gcn"], settings={key: "uniform"})


def test_what_is_not_shown_cannot_be_chosen():
    with pytest.raises(InputError, match="leave --models out"):
        request_for("duplication", datasets=["digits"], models=["gcn"])
    with pytest.raises(InputError, match=r"duplication rests on no runs; leave --seeds out\."):
        request_for("duplication", datasets=["digits"], seeds=5)
    with pytest.raises(InputError, match="--set learning_rate says nothing"):
        request_for("duplication", datasets=["digits"], settings={"learning_rate": 3})
    with pytest.raises(InputError, match="leave --datasets out"):
        request_for("entropy", datasets=["digits"])


def test_options_without_effect_are_refused():
    with pytest.raises(InputError, match=r"leave --split out\."):
        request_for("entropy", split="uniform")
    with pytest.raises(InputError, match=r"leave --split and --seeds out\."):
        request_for("distributions", datasets=["digits"], split="paper", seeds=3)
    with pytest.raises(InputError, match=r"--set model\.hidden says nothing; it takes hops"):
        request_for("distributions", datasets=["digits"], settings={"model.hidden": 3})
    with pytest.raises(InputError, match=r"--set training\.hops says nothing"):
        request_for("distributions", datasets=["digits"], settings={"training.hops": 3})
    with pytest.raises(InputError, match="one of the seeds"):
        request_for("embeddings", datasets=["digits"], seeds=2)
    request, _ = request_for("distributions", datasets=["digits"], settings={"model.hops": 3})
    assert request.settings == (("model.hops", 3),)
    assert request_for("embeddings", datasets=["digits"], seeds=[4])[0].seeds == (4,)


def test_what_a_figure_decides_itself_cannot_be_set():
    with pytest.raises(InputError, match="sensitivity decides hops itself; leave --set hops out"):
        request_for("sensitivity", datasets=["digits"], settings={"epochs": 2, "hops": 1})


def test_what_some_rows_decide_is_said_below_the_table():
    settings = {"model.separation": "strict", "epochs": 3}
    options = {"datasets": ["digits"], "models": ["ncgcn", "without-separation"]}
    request, _ = request_for("table1", settings=settings, **options)
    made = reproduce("table1", [], request=request)
    (note,) = {grid.notes[-1] for grid in paper_grids(made)}
    assert note == 'With model.separation="strict" where a row is not about it, epochs=3.'
    for models in (["ncgcn", "three-hops"], ["three-hops", "ncgcn"]):  # then both are one run
        request, _ = request_for("table1", datasets=["digits"], models=models, settings={"hops": 3})
        made = reproduce("table1", [], request=request)
        assert paper_grids(made)[0].notes[-1] == "With hops=3 where a row is not about it."
