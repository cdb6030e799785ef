"""A trained model: what it predicts, how good that is, and how it is saved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ncgnn._io import as_path
from ncgnn.data import save, write_folder
from ncgnn.errors import InputError
from ncgnn.graph import as_graph
from ncgnn.nn import Grouper, Mixture, counting_phases
from ncgnn.training.adaptor import ExplainerModel
from ncgnn.training.answers import Answers, Facts
from ncgnn.training.calibration import calibrate, calibration_report
from ncgnn.training.evaluation import SCORE_NAMES, compare_trained, evaluation, expert_shares
from ncgnn.training.explanation import Explanation, explain, locate
from ncgnn.training.folder import (
    DATASET,
    ENVIRONMENT,
    GRAPH,
    RESULT,
    SPLIT,
    TIMING,
    TRIED,
    WEIGHTS,
    RunFolder,
    environment,
    trained_tensors,
    write_tensors,
)
from ncgnn.training.inference import Inference, own_outcome
from ncgnn.training.prediction_sets import (
    COVERAGE,
    SetRequest,
    check_coverage,
    find_rule,
    sets_report,
)
from ncgnn.training.refit import refit, write_experts, write_refit
from ncgnn.training.trainer import ShareCorrection, know_labels, predict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from ncgnn.data import Split
    from ncgnn.graph import Graph, GraphLike
    from ncgnn.nn import GraphInputs, Grouping, Model
    from ncgnn.training.calibration import Calibration
    from ncgnn.training.config import RunConfig
    from ncgnn.training.inference import Only, Outcome
    from ncgnn.training.prediction_sets import SetGroups, SetRule, SetScore
    from ncgnn.training.refit import Expert
    from ncgnn.training.start import Start


@dataclass(frozen=True, eq=False, repr=False)
class TrainedModel:
    """The best epoch's weights together with the groups that were in force.

    Attributes:
        model: The model.
        inputs: The graph as the model sees it.
        split: Training, validation and test nodes.
        grouping: NC and groups in force in the best epoch.
        config: The run's configuration.
        history: One record per epoch.
        seconds: How long training took.
        start: What training began with, if not with random weights.
        refitted: The same model trained on all labels, if there is one. It answers for nodes that
            have no label; its scores are unknown.
        experts: Of a mixture whose experts were trained apart, how each of them was.
        auto: Of a model that ``auto`` has chosen, what it has tried; see
            :mod:`ncgnn.training.auto`.
    """

    model: Model
    inputs: GraphInputs
    split: Split
    grouping: Grouping
    config: RunConfig
    history: Sequence[dict[str, Any]]
    seconds: float
    start: Start | None = None
    refitted: TrainedModel | None = None
    experts: tuple[Expert, ...] = ()
    auto: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        # Whatever the inputs were made for, this model may read the labels of its own split.
        object.__setattr__(self, "inputs", know_labels(self.inputs, self.split))
        if self.refitted is not None:
            self.refitted.__dict__["origin"] = self

    def __repr__(self) -> str:
        if not len(self.split.val):
            return (
                f"TrainedModel({self.config.model.name} on {self.graph.name}: trained on all "
                f"{len(self.split.train):,} labels for {self.best_epoch + 1} epochs)"
            )
        metric = self.config.training.metric
        best = self.history[self.best_epoch]
        return (
            f"TrainedModel({self.config.model.name} on {self.graph.name}: {self.graph.num_nodes:,} "
            f"nodes, {self.inputs.num_classes} classes; best of {len(self.history)} epochs: "
            f"{best['epoch']}, validation {SCORE_NAMES[metric]} "
            f"{100 * best[f'val_{metric}']:.2f})"
        )

    @property
    def best_epoch(self) -> int:
        """The first epoch with the best validation score of those stages that count."""
        training = self.config.training
        names = counting_phases(self.model.phases(training.epochs, training.patience))
        found = [r for r in self.history if "phase" not in r or r["phase"] in names]
        return max(found, key=lambda record: record[f"val_{training.metric}"])["epoch"]

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self.inputs.graph

    def evaluate(
        self, *, against: TrainedModel | None = None, coverage: float = COVERAGE
    ) -> dict[str, Any]:
        """Scores with intervals, in all, per class and per group; never of refitted weights.

        Args:
            against: A model with the same test nodes. What this one is better in, with intervals of
                paired resamples, is under ``"against"``; all else is as ``result.json`` holds it.
            coverage: How often prediction sets should hold the class of their node.

        Raises:
            InputError: The model was trained on all labels, or the other has other test nodes.
        """
        if not len(self.split.val):
            raise InputError(
                "a model that was trained on all labels has no nodes left to evaluate it; evaluate "
                "the run that it was refitted from."
            )
        check_coverage(coverage)
        nodes = self.split.test if len(self.split.test) else self.split.val
        result = {
            **evaluation(self.model, self.inputs, self.split, self.grouping, self.outcome),
            "calibration": calibration_report(self, nodes),
            "sets": sets_report(self, nodes, coverage),
        }
        if isinstance(self.model, Mixture):
            result["mixture"] = expert_shares(self)
        return result if against is None else result | {"against": compare_trained(self, against)}

    def logits(self) -> torch.Tensor:
        """Logits of all nodes, without dropout, for the class shares of the configuration."""
        return predict(self.model, self.inputs, self.grouping, self.correction)

    def probabilities(self, *, calibrated: bool = True) -> NDArray[np.float64]:
        """Probability of every class for every node [n, classes].

        Args:
            calibrated: Whether by the temperatures of :attr:`calibration`, or as the model says it.
        """
        logits = self.outcome.logits
        if not calibrated:
            return torch.softmax(logits.cpu().double(), dim=1).numpy()
        return self.calibration.probabilities(logits, self.outcome.kinds)

    def predict(
        self,
        graph: GraphLike | None = None,
        *,
        only: Only = "all",
        top: int = 0,
        probabilities: bool = False,
        update_old: bool = False,
        refit: bool = True,
        others: Sequence[TrainedModel] = (),
        coverage: float | None = None,
        sets: SetScore = "lac",
        sets_by: SetGroups = "nc",
        allow_empty: bool = False,
    ) -> Answers:
        """Answers for nodes of the training graph, or of another one with the same features.

        Old nodes, which the training graph has too, keep their answers. Only the receptive field
        of new ones is computed. Labels of new nodes play no part in any answer.

        Args:
            graph: The training graph with more nodes, as ``graph.extend`` makes it, or any other
                with the same features, classes and kind of edges, whose nodes are old where their
                ids are; by default the training graph.
            only: Answer for ``"all"`` nodes, or those that are ``"unlabeled"``, in the ``"test"``
                part, or ``"new"``.
            top: How many of the most probable classes have columns of their own.
            probabilities: Whether every class has a column.
            update_old: Whether old nodes get new answers from what they see in this graph. Groups
                of separated models stay those of training.
            refit: Whether the refitted model, if there is one, answers for nodes without a label
                and for new ones. Nodes of the training graph that have a label always get the
                answers of this one, so that those of test nodes stay honest.
            others: Models of the same graph, such as those of other seeds, whose probabilities are
                averaged with this one's for the same nodes that a refitted model answers for. NC,
                kinds and groups stay those of this one.
            coverage: With ``coverage=0.9``, a column ``set`` with classes that hold the true one
                for nine of ten nodes, and its ``set_size``; see
                :mod:`ncgnn.training.prediction_sets`. Nothing is promised for nodes whose label was
                trained on. With ``others`` a class must be in half of the models' sets.
            sets: The score: ``"lac"`` for small sets, ``"aps"`` or ``"aps-random"``.
            sets_by: What the promise holds for: ``"nc"``, for every group of nodes with similar NC,
                or ``"none"``, over all nodes together.
            allow_empty: Whether a set may be empty, where no class is usual enough; otherwise it
                then holds the most probable one.
        """
        if only == "new" and graph is None:
            raise InputError(
                "the training graph has no new nodes; give their tables (--nodes, --edges), or the "
                "graph that graph.extend makes of them."
            )
        given = self.graph if graph is None else as_graph(graph, require_labels=False)
        wanted = SetRequest.of(coverage, sets, sets_by, allow_empty)
        facts = self._facts(given, only, update_old, self.refitted if refit else None, wanted)
        if others and only != "test":
            facts = self._average(facts, given, only, update_old, refit, others, wanted)
        names, said = self.graph.class_names, {"model": self.config.model.name}
        return Answers.of(facts, names, top=top, probabilities=probabilities, about=said)

    def _facts(
        self,
        graph: Graph,
        only: Only,
        update_old: bool,
        refitted: TrainedModel | None,
        wanted: SetRequest | None = None,
    ) -> Facts:
        """What answers say, from this model and, for nodes without a label, the refitted one."""
        own = Inference(self, graph, update_old=update_old)
        if refitted is None or only == "test":
            facts = own.facts(only)
        else:
            facts = Inference(refitted, graph, update_old=update_old).facts(only)
            kept = own.keeps_label(only)
            facts = Facts.choose(kept, own.facts(only), facts) if kept.any() else facts
        return facts if wanted is None else wanted.apply(self, facts)

    def _average(
        self,
        facts: Facts,
        graph: Graph,
        only: Only,
        update_old: bool,
        refit: bool,
        others: Sequence[TrainedModel],
        wanted: SetRequest | None,
    ) -> Facts:
        """The mean of what several models say of nodes without a label of training."""
        told: list[Facts] = []
        for one in others:
            if one.graph.class_names != self.graph.class_names:
                raise InputError("others must be models of the same classes; got other ones.")
            refitted = one.refitted if refit else None
            told.append(one._facts(graph, only, update_old, refitted, wanted))
            if not np.array_equal(told[-1].ids, facts.ids):
                raise InputError(
                    "others must be models of the same graph, so that they answer for the same "
                    "nodes; got one of other nodes."
                )
        kept = Inference(self, graph, update_old=update_old).keeps_label(only)
        average = Facts.average(facts, *told)
        if wanted is not None:
            average = wanted.complete(average)
        return Facts.choose(kept, facts, average)

    def refit(self, on_epoch: Callable[[dict[str, Any]], None] | None = None) -> TrainedModel:
        """Train once more on all labels, as this training went, for nodes that have none.

        Args:
            on_epoch: Called with a record of every epoch.

        Returns:
            This model, whose ``predict`` uses the new weights for nodes without a label, and whose
            scores stay as they are.
        """
        return replace(self, refitted=refit(self, on_epoch))

    def explain(
        self,
        node: Any,
        graph: GraphLike | None = None,
        *,
        neighbors: int = 20,
        features: int = 10,
        refit: bool = True,
    ) -> Explanation:
        """Why the model answers as it does for a node: what it would answer without parts of it.

        Each of the parts is left out in turn, and the model computes the answer again: all
        neighbors, all of the node's own features, single neighbors (the edges between them and the
        node, both ways), single features and, of tables, whole columns. Groups of separated models
        stay as they are.

        Args:
            node: Its id.
            graph: As for :meth:`predict`. Nodes of the training graph keep their answers, and are
                explained in it.
            neighbors: How many neighbors are left out one by one; of more, those with the largest
                gradients.
            features: How many single features are shown; three times as many are tried.
            refit: As for :meth:`predict`: the model that answers for the node is explained.
        """
        given = None if graph is None else as_graph(graph, require_labels=False)
        asked = self._answering(node, given) if refit else self
        return explain(asked, node, given, neighbors, features)

    def _answering(self, node: Any, graph: Graph | None) -> TrainedModel:
        """The model that answers for a node: the refitted one where it has no label of training."""
        if self.refitted is None:
            return self
        inference, place = locate(self, node, graph)
        keeps = inference.graph is self.graph and self.graph.labels[place] >= 0
        return self if keeps else self.refitted

    def for_explainer(
        self, node: Any = None, graph: GraphLike | None = None, *, refit: bool = True
    ) -> ExplainerModel:
        """The model as PyG's ``torch_geometric.explain.Explainer`` takes it.

        Args:
            node: A node's id, to take its surroundings only, as far as the model looks; by default
                the whole graph.
            graph: As for :meth:`predict`.
            refit: As for :meth:`explain`; for the whole graph it is always this model.
        """
        given = None if graph is None else as_graph(graph, require_labels=False)
        if node is None:
            inference, asked = self.look_at(given), None
        else:
            model = self._answering(node, given) if refit else self
            inference, place = locate(model, node, given)
            asked = np.array([place])
        if (inference.old < 0).any():
            _ = inference.answer  # groups the new nodes
        return ExplainerModel(inference.view(asked), inference.graph.ids, single=node is not None)

    def look_at(self, graph: Graph | None) -> Inference:
        """What the model makes of the nodes of a graph, kept for its own and for the latest one."""
        asked = self.graph if graph is None else graph
        kept: list[Inference] = self.__dict__.setdefault("_looked_at", [])
        for known in kept:
            if known.graph is asked:
                return known
        self.__dict__["_looked_at"] = [one for one in kept if one.graph is self.graph]
        found = Inference(self, asked)
        self.__dict__["_looked_at"].append(found)
        return found

    @cached_property
    def grouped_expert(self) -> TrainedModel | None:
        """The expert of a mixture that has groups, as a model of its own; None where none has."""
        model = self.model
        if not isinstance(model, Mixture) or model.grouped is None:
            return None
        expert: Any = model.experts[model.grouped]
        alone = replace(self, model=expert, refitted=None, experts=(), auto=None)
        alone.__dict__["correction"] = self.correction
        return alone

    @cached_property
    def outcome(self) -> Outcome:
        """What the model makes of the nodes of its graph, computed once."""
        return own_outcome(self)

    @cached_property
    def calibration(self) -> Calibration:
        """The temperatures of probabilities, found on validation nodes alone.

        A refitted model has none left and uses those of the run that it was refitted from.
        """
        origin: TrainedModel | None = self.__dict__.get("origin")
        return calibrate(self) if origin is None else origin.calibration

    def set_rule(
        self, coverage: float = COVERAGE, sets: SetScore = "lac", sets_by: SetGroups = "nc"
    ) -> SetRule:
        """Which classes are in the sets of :meth:`predict`, found on validation nodes alone.

        A refitted model has none left and uses the rule of the run that it was refitted from.
        """
        origin: TrainedModel | None = self.__dict__.get("origin")
        if origin is not None:
            return origin.set_rule(coverage, sets, sets_by)
        known: dict[Any, SetRule] = self.__dict__.setdefault("_set_rules", {})
        asked = coverage, sets, sets_by
        if asked not in known:
            known[asked] = find_rule(self, *asked)
        return known[asked]

    @cached_property
    def seen(self) -> NDArray[np.bool_]:
        """Per node, whether its label was trained on."""
        return self.parts == "train"

    @cached_property
    def parts(self) -> NDArray[np.str_]:
        """Per node, ``train``, ``val``, ``test`` or nothing."""
        part = np.full(self.graph.num_nodes, "", dtype="<U5")
        for name in ("train", "val", "test"):
            part[getattr(self.split, name)] = name
        return part

    @cached_property
    def limits(self) -> tuple[float, ...]:
        """The values that separate the groups of a separated model, none of another one."""
        if self.model.rule is None:
            return ()
        grouper = Grouper(self.graph, self.model.rule, self.inputs.num_classes)
        every = np.zeros(self.graph.num_nodes, dtype=np.int64)  # all nodes had some prediction
        values = grouper.compared(self.grouping.confusion.numpy(), every)
        return self.model.rule.limits(values)

    @cached_property
    def correction(self) -> ShareCorrection | None:
        """What corrects logits for the class shares of the configuration."""
        return ShareCorrection.of(self.config.training.class_shares, self.inputs, self.split)

    def save(self, path: Path | str) -> Path:
        """Write a run folder with the graph in it, for :func:`load_run` and ``ncgnn predict``.

        Args:
            path: A folder that does not exist yet or is empty.
        """
        folder, config = RunFolder(as_path(path)), self.config.storable()
        if folder.path.exists() and (not folder.path.is_dir() or any(folder.path.iterdir())):
            raise InputError(f"{folder.path} exists already; name a new folder.")
        folder.path.mkdir(parents=True, exist_ok=True)
        folder.write_json(ENVIRONMENT, environment() | {"graph_sha256": self.graph.fingerprint})
        folder.write_config(config)
        self.split.save(folder / SPLIT)
        if self.graph.source is None:
            save(self.graph, folder / GRAPH)
        else:  # with its encoders, for rows that come later
            write_folder(self.graph, folder / DATASET)
        if self.start is not None:
            self.start.write(folder)
        folder.write_history(self.history)
        self.write_outcome(folder)
        folder.mark_done()
        if self.refitted is not None:
            write_refit(folder, self.refitted)
        return folder.path

    def write_outcome(self, folder: RunFolder, epoch_seconds: float | None = None) -> None:
        """Write weights, scores and times into a run's folder.

        Args:
            folder: Folder of the run.
            epoch_seconds: Of a usual epoch; by default the mean, the first one's compiling
                included.
        """
        config, epochs, best_epoch = self.config, len(self.history), self.best_epoch
        about = {"model": config.model.name, "epoch": best_epoch}
        tensors = trained_tensors(self.model, self.grouping)
        write_tensors(folder / WEIGHTS, tensors, about, durable=False)
        if self.experts:
            write_experts(folder, self.experts)
        if self.auto is not None:
            folder.write_json(TRIED, dict(self.auto))
        protocol = config.data.protocol
        head = {
            "dataset": config.data.dataset,
            "graph": self.graph.name,
            "model": config.model.name,
            "split": config.data.split,
            **({} if protocol == "transductive" else {"protocol": protocol}),
            "split_sha256": self.split.sha256,
            "seed": config.training.seed,
            "revision": type(self.model).revision_of(config.model.options),
            "metric": config.training.metric,
            "best_epoch": best_epoch,
            "epochs": epochs,
        }
        folder.write_json(RESULT, head | self.evaluate())
        usual = self.seconds / epochs if epoch_seconds is None else epoch_seconds
        folder.write_json(TIMING, {"seconds": self.seconds, "seconds_per_epoch": usual})
