"""The search of ``auto``: candidates within a time budget, and the combination of the best ones.

What it keeps in its folder:

======================  =======================================================================
``search.json``         the candidates so far, and the time that they took
``candidates/``         their runs
``folds/``              what experts answer for training nodes that they have not seen
======================  =======================================================================
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ncgnn.errors import InputError, NcgnnError, sentence
from ncgnn.nn import model_class
from ncgnn.training.attempt import (
    CANDIDATES,
    COMBINATION_RULE,
    NO_TIME,
    Attempt,
    AutoWatcher,
    Row,
    about,
)
from ncgnn.training.candidates import AutoConfig, Candidate, list_candidates
from ncgnn.training.choice import choose_batches
from ncgnn.training.combination import (
    MOST_GATED,
    answer_unseen,
    expert_temperature,
    judge_combination,
    make_mixture,
    select_average,
    train_gate,
)
from ncgnn.training.evaluation import evaluated_part, score
from ncgnn.training.folder import RESULT, DamagedFileError, RunFolder
from ncgnn.training.folds import draw_folds
from ncgnn.training.forecast import forecast
from ncgnn.training.loading import new_inputs, new_trainer, read_trained
from ncgnn.training.run import is_current
from ncgnn.training.trainer import check_trainable, predict
from ncgnn.training.verdict import judge, sees_edges

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ncgnn.data import Split
    from ncgnn.graph import Graph
    from ncgnn.nn import Gate
    from ncgnn.training.config import RunConfig
    from ncgnn.training.evaluation import Metric
    from ncgnn.training.run import RunResult
    from ncgnn.training.trained import TrainedModel
    from ncgnn.training.trainer import Record

SEARCH, FOLDS = "search.json", "folds"

# How many epochs are planned for the first candidate, to be on the safe side.
_USUAL_EPOCHS = 120
# A model that learns in rounds is not worth it with fewer.
_LEAST_ROUNDS = 20
# A model that is so far behind the best one is not tried with other rates.
_FAR = 0.05
# Shares of the budget: what is kept for the combination at most and at least, and for the end.
_COMBINING, _LEAST_COMBINING, _ENDING = 0.4, 0.1, 0.03


@dataclass(frozen=True, eq=False)
class Found:
    """What a search has found.

    Attributes:
        trained: The model.
        row: Its row: that of a candidate, or of a combination.
    """

    trained: TrainedModel
    row: Row

    @cached_property
    def temperature(self) -> float:
        """What its logits are divided by where it is an expert."""
        return expert_temperature(self.trained)


def _mix(experts: Sequence[Found], shares: Sequence[float], gate: Gate) -> TrainedModel:
    """What was found as one model."""
    temperatures = [one.temperature for one in experts]
    return make_mixture([one.trained for one in experts], shares, gate, temperatures=temperatures)


class Search:
    """Tries candidates and combines the best ones.

    Args:
        wanted: What is asked for.
        graph: The graph.
        folder: Where the search is kept.
        split: The split, if it is not the one that is named.
        watcher: Hears of it.
        stop: Asked after every epoch whether to stop; everything is kept then.
        controls: Whether gates without NC and of NC alone are trained, too, to compare with.
        clock: What the budget is measured by, in seconds.
    """

    def __init__(
        self,
        wanted: AutoConfig,
        graph: Graph,
        folder: Path,
        *,
        split: Split | None = None,
        watcher: AutoWatcher | None = None,
        stop: Callable[[], bool] | None = None,
        controls: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.wanted, self.graph, self.folder, self.given = wanted, graph, RunFolder(folder), split
        self.split = wanted.base.make_split(graph) if split is None else split
        self.watcher = AutoWatcher() if watcher is None else watcher
        self.stop = (lambda: False) if stop is None else stop
        self.controls = controls
        self.metric: Metric = wanted.base.training.metric
        self.budget = wanted.options.seconds
        self.candidates = [self._in_batches(one) for one in list_candidates(wanted, graph)]
        self.rows: dict[str, Row] = {}
        self.curves: dict[str, list[float]] = {}
        self.combined: list[Row] = []
        self.mixtures: list[TrainedModel] = []
        # With how many epochs candidates are trained that do not fit into the time otherwise.
        self.shorter: dict[str, int] = {}
        self.clock = clock
        self._before, self._began = 0.0, clock()
        self._read()

    def _in_batches(self, candidate: Candidate) -> Candidate:
        """A candidate as it is trained: in batches, where it would not fit into memory."""
        place = self.folder / CANDIDATES
        config, choice = choose_batches(candidate.config, self.graph, place)
        if choice is None:
            return candidate
        return Candidate(f"{candidate.title}, in batches", config)

    @property
    def spent(self) -> float:
        """Seconds since the search began, without those between its interruptions."""
        return self._before + self.clock() - self._began

    def run(self) -> Found:
        """Try, combine and choose.

        Raises:
            KeyboardInterrupt: ``stop`` said so; the same search continues.
            NcgnnError: No candidate could be trained.
        """
        check_trainable(self.graph, self.split)  # what no candidate could be trained with
        before = self.spent
        self.watcher.on_plan(self.candidates, self.budget, before, self._expect())
        for candidate in self.candidates:
            known = self.rows.get(candidate.config.name)
            if known is None:
                row = self._try(candidate)
                self.rows[candidate.config.name] = row
                self.keep()
                self.watcher.on_row(row)
        singles = self._finished()
        if not singles:
            problems = "; ".join(f"{row.title}: {row.why}" for row in self.rows.values())
            raise NcgnnError(f"auto: no candidate could be trained ({problems}).")
        tried = self.spent
        found = self._choose(singles)
        self._measure()
        self.keep(tried)
        return Found(replace(found.trained, auto=self._facts(found)), found.row)

    def _expect(self) -> float | None:
        """Seconds that what is left to try will probably take."""
        left = [one for one in self.candidates if one.config.name not in self.rows]
        with suppress(NcgnnError, MemoryError, RuntimeError):  # which _try tells of
            combine = self.wanted.options.combine
            return forecast(left, self.graph, self.split, self.clock, combine=combine)
        return None

    def _try(self, candidate: Candidate) -> Row:
        """Train a candidate, unless there is no time for it."""
        row = Row(candidate.title, candidate.model, candidate.config.name)
        if why := self._why_not(candidate):
            return replace(row, why=why)
        attempt = Attempt(self, candidate, shorter=self.shorter.get(row.name))
        try:
            if rounds := candidate.config.model.options.get("rounds"):
                fits = self._rounds_that_fit(candidate, rounds)
                if fits < min(rounds, _LEAST_ROUNDS):
                    return replace(row, why="would take too long: each of its rounds is slow")
                if fits < rounds:
                    candidate = candidate.with_option("rounds", fits)
                    row = Row(candidate.title, candidate.model, candidate.config.name)
                    attempt = Attempt(self, candidate)
            done = None if attempt.shorter else attempt.train(candidate.config)
            if done is None and attempt.shorter is not None:
                self.shorter[row.name] = attempt.shorter
                shorter = candidate.config.replaced("training", epochs=attempt.shorter)
                row = replace(row, title=f"{row.title}, epochs {attempt.shorter}")
                row.name = shorter.name
                done = attempt.train(shorter)
        except (NcgnnError, MemoryError, RuntimeError) as error:
            return replace(row, state="failed", why=sentence(error), seconds=attempt.seconds)
        row.seconds = attempt.seconds
        if done is None:
            row.state = "stopped" if attempt.records else "skipped"
            row.why = attempt.why
            row.epochs = len(attempt.records)
            return row
        return self._complete(row, done, attempt.resumed)

    def _rounds_that_fit(self, candidate: Candidate, rounds: int) -> int:
        """How many rounds of a model that goes on to its end fit into a tenth of what is left.

        None do where timing a few has taken half of that already.
        """
        times: list[float] = []
        for few in (1, 2, 6):  # the first one also imports and compiles
            config = candidate.with_option("rounds", few).config
            began = self.clock()
            with torch.random.fork_rng(devices=[]):
                new_trainer(config, self.graph, self.split).epoch()
            times.append(self.clock() - began)
            if times[-1] * rounds / few < self.available / 10:
                return rounds
            if few > 1 and times[-1] > self.available / 20:
                return 0
        each = max((times[2] - times[1]) / 4, 1e-6)
        return min(rounds, int((self.available / 10 - times[1]) / each))

    def _why_not(self, candidate: Candidate) -> str:
        """Why a candidate is not worth beginning; empty where it is."""
        if self.available <= 0:
            return NO_TIME
        same = [r for r in self.rows.values() if r.model == candidate.model]
        if not same:
            return ""
        if candidate.fits_at_once and max(row.seconds for row in same) > self.available / 16:
            return "little time is left, and the model was tried with other values"
        best = max((r.val for r in self.rows.values() if r.val is not None), default=None)
        mine = max((r.val for r in same if r.val is not None), default=None)
        # What features alone can do must be known as well as what the graph can, and a fit in one
        # go that has not taken long is no loss.
        spares = candidate.sees_graph and not candidate.fits_at_once
        if best is not None and mine is not None and spares and mine < best - _FAR:
            return f"with other rates, {candidate.model} was far behind the best"
        return ""

    @property
    def available(self) -> float:
        """Seconds that are left for candidates; what is kept back is for the combination.

        Until every model has had its turn, that is a small share, whatever they have taken.
        """
        keep = _ENDING * self.budget
        if self.wanted.options.combine:
            best = sorted(self._finished(), key=lambda row: -(row.val or 0))[:MOST_GATED]
            need = max(_LEAST_COMBINING * self.budget, 2 * sum(map(_fold_seconds, best)))
            waits = {one.model for one in self.candidates} - {r.model for r in self.rows.values()}
            keep += min((_LEAST_COMBINING if waits else _COMBINING) * self.budget, need)
        return self.budget - self.spent - keep

    def usual_epochs(self, config: RunConfig) -> int:
        """How many epochs a candidate probably needs: as many as others did."""
        known = [len(curve) for curve in self.curves.values() if len(curve) > 1]
        usual = int(np.median(known)) if known else _USUAL_EPOCHS
        return min(config.training.epochs, usual)

    def _complete(self, row: Row, done: RunResult, resumed: int) -> Row:
        """A row with what came of a run, of which so many epochs had been done before."""
        history, best = RunFolder(done.folder).history(), int(done.result["best_epoch"])
        record = history[best]
        row.state, row.epochs, row.best_epoch = "finished", len(history), best
        row.val, row.val_loss = record[f"val_{self.metric}"], record["val_loss"]
        row.train_accuracy = done.result["scores"]["train"]["accuracy"]
        row.val_accuracy = record["val_accuracy"]
        if not done.fresh:  # it was finished when the search was interrupted
            row.seconds = done.seconds
        elif 0 < resumed < len(history):
            row.seconds *= len(history) / (len(history) - resumed)
        self.curves[row.name] = [one[f"val_{self.metric}"] for one in history]
        return row

    def _finished(self) -> list[Row]:
        """The rows of candidates that were trained to their end."""
        return [row for row in self.rows.values() if row.state == "finished"]

    def _choose(self, rows: list[Row]) -> Found:
        """The best candidate, or a combination that is better by validation."""
        rows = sorted(rows, key=_rank)
        self._inputs = new_inputs(self.wanted.base, self.graph)
        self._inputs.in_blocks = any(one.config.training.batch_size for one in self.candidates)
        best = self._load(rows[0])
        others = [row for row in rows[1:] if row.model != "majority"]
        if not self.wanted.options.combine or not others or rows[0].model == "majority":
            return best
        self.watcher.on_stage("combining the best ones")
        return self._combine([best, *map(self._load, others)])

    def _load(self, row: Row) -> Found:
        """The run of a candidate."""
        folder = RunFolder(self.folder / CANDIDATES / row.name)
        return Found(read_trained(folder, folder.read_config(), self._inputs), row)

    def _combine(self, pool: list[Found]) -> Found:
        """The best of the first model, an average of some, and a mixture with a gate."""
        best, chosen = pool[0], pool[0]
        shares = self._shares(pool)
        grouped = [one.trained.model.rule is not None for one in pool]
        if len(shares) > 1:
            experts = [pool[place] for place in shares]
            began = self.clock()
            mixture = _mix(experts, [*shares.values()], "none")
            average = self._add("average", experts, mixture, began, [*shares.values()])
            if self._prefers(average, best):
                chosen = average
            heaviest = sorted(shares, key=lambda place: (place > 0, -shares[place]))[:MOST_GATED]
            experts = [pool[place] for place in sorted(heaviest)]
        else:  # nobody makes it likelier at all nodes; at some, the next model may
            other = next((p for p in range(1, len(pool)) if not (grouped[0] and grouped[p])), None)
            if other is None:
                return chosen
            experts = [best, pool[other]]
        experts = self._affordable(experts, best)
        for kind in ("full", "without-nc", "nc") if self.controls else ("full",):
            gated = self._train_gate(experts, kind)
            if gated is None:
                return chosen
            if kind != "full":
                self.watcher.on_row(gated.row)  # a control, which nobody may choose
            elif self._prefers(gated, chosen):
                chosen = gated
        return chosen

    def _prefers(self, combined: Found, simpler: Found) -> bool:
        """Whether validation speaks for a combination; its row says why."""
        word = simpler.row.title.partition(" of ")[0]
        title = "the average" if simpler.row in self.combined else word
        verdict = judge_combination(combined.trained, simpler.trained, title)
        combined.row.why = verdict.why
        self.watcher.on_row(combined.row)
        return verdict.better

    def _shares(self, pool: list[Found]) -> dict[int, float]:
        """How much each of some models counts in their average, which begins with the first.

        A mixture corrects its answers for class shares, and its experts do not.
        """
        val = torch.from_numpy(self.split.val.copy()).to(self._inputs.device)
        answers: list[torch.Tensor] = []
        for one in pool:
            trained = one.trained  # its inputs hold the labels that it may read
            logits = predict(trained.model, trained.inputs, trained.grouping).index_select(0, val)
            answers.append(torch.log_softmax(logits / one.temperature, dim=1))
        grouped = [one.trained.model.rule is not None for one in pool]
        return select_average(answers, self._inputs.labels.index_select(0, val), 0, grouped)

    def _affordable(self, experts: list[Found], best: Found) -> list[Found]:
        """Experts without those that take most time, as long as there is not enough of it."""
        kept = list(experts)
        while len(kept) > 2 and self._count_folds(kept) is None:
            kept.remove(max((e for e in kept if e is not best), key=lambda e: _fold_seconds(e.row)))
        return kept

    def _train_gate(self, experts: list[Found], kind: Gate) -> Found | None:
        """A mixture with a gate; None where there is no time to train one, or it fails."""
        words = {"full": "gate", "without-nc": "gate without NC", "nc": "gate of NC alone"}
        row = Row(f"{words[kind]} over {_list(experts)}", "mixture", "")
        folds = self._count_folds(experts)
        if self._in_folds < 2:
            row.why = "there are too few training nodes: no class has two"
        elif folds is None:
            need = 2 * sum(_fold_seconds(one.row) for one in experts)
            row.why = f"would take about {about(need)}, {about(self._left)} are left"
        else:
            try:
                return self._gate(experts, kind, words[kind], folds)
            except (NcgnnError, MemoryError, RuntimeError) as error:
                row.state, row.why = "failed", sentence(error)
        self.combined.append(row)
        self.watcher.on_row(row)
        return None

    def _gate(self, experts: list[Found], kind: Gate, word: str, folds: int) -> Found:
        """A mixture whose gate was trained on answers for nodes that experts have not seen."""
        began = self.clock()
        labels = np.full(self.graph.num_nodes, -1, dtype=np.int64)
        labels[self.split.train] = self.graph.labels[self.split.train]
        fold = draw_folds(labels, folds, self.wanted.base.training.seed)
        equal = [1 / len(experts)] * len(experts)
        models = [one.trained for one in experts]
        full = _mix(experts, equal, "full")
        self.watcher.on_stage(f"answers of {_list(experts)} for nodes that they have not seen")
        unseen = answer_unseen(full, models, fold, self.folder / FOLDS, self._in_fold)
        mixture = full if kind == "full" else _mix(experts, equal, kind)
        best = min(range(len(experts)), key=lambda e: -(experts[e].row.val or 0))
        return self._add(word, experts, train_gate(mixture, unseen, best), began)

    def _count_folds(self, experts: list[Found]) -> int | None:
        """In how many folds there is time to train experts once more; None if there is not."""
        begun = [int(one.name) for one in (self.folder / FOLDS).glob("[0-9]*")]
        if begun:  # by a search that was interrupted there, or for another gate
            return max(begun)
        need = sum(_fold_seconds(one.row) for one in experts)
        counts = [n for n in (self.wanted.options.folds, 2) if n <= self._in_folds]
        fitting = (n for n in counts if n * need <= self._left)
        return next(fitting, None)

    @property
    def _in_folds(self) -> int:
        """How many training nodes folds can be made of: the only one of a class is in none."""
        labels = self.graph.labels[self.split.train]
        return int((np.bincount(labels)[labels] > 1).sum())

    @property
    def _left(self) -> float:
        return (1 - _ENDING) * self.budget - self.spent

    def _in_fold(self, record: Record) -> None:
        if self.stop():
            self.keep()
            raise KeyboardInterrupt

    def _add(
        self,
        word: str,
        experts: list[Found],
        mixture: TrainedModel,
        began: float,
        shares: list[float] | None = None,
    ) -> Found:
        """A combination with its row."""
        record = mixture.history[0]
        row = Row(f"{word} {'of' if shares else 'over'} {_list(experts, shares)}", "mixture", "")
        row.name, row.state = mixture.config.name, "finished"
        row.val, row.val_loss = record[f"val_{self.metric}"], record["val_loss"]
        row.seconds = self.clock() - began
        row.train_accuracy, row.val_accuracy = None, record["val_accuracy"]
        self.combined.append(row)
        self.mixtures.append(mixture)
        return Found(mixture, row)

    def _measure(self) -> None:
        """Fill in the scores of test nodes; everything is chosen by now."""
        for row in self._finished():
            result = RunFolder(self.folder / CANDIDATES / row.name).read_json(RESULT)
            row.test = result["scores"].get("test", {}).get(self.metric)
        made = [row for row in self.combined if row.state == "finished"]
        for row, mixture in zip(made, self.mixtures, strict=True):
            row.test = _test_score(mixture, mixture.logits(), self.metric)

    def _facts(self, found: Found) -> dict[str, Any]:
        """What ``auto.json`` says."""
        rows = [*self.rows.values()]
        other = self._best_of(found, sees_graph=not sees_edges(found.trained))
        beside = (None, None) if other is None else (other.trained, other.row)
        verdict = judge(found.trained, found.row, rows, *beside)
        return {
            "asked": self.wanted.sha256,
            "rule": COMBINATION_RULE,
            "metric": self.metric,
            "evaluated": evaluated_part(found.trained.split)[0],
            "budget": self.budget,
            "seconds": self.spent,
            "chosen": found.row.title,
            "candidates": [asdict(row) for row in rows],
            "combinations": [asdict(row) for row in self.combined],
            **verdict,
        }

    def _best_of(self, found: Found, *, sees_graph: bool) -> Found | None:
        """The best of other candidates that see the graph, or of those that see features alone.

        As the one that was found may be an average, an average of these counts as well. Where nodes
        have no features, the commonest class stands for them.
        """
        bare = self.graph.features is None
        rows = [
            row for row in self._finished()
            if row is not found.row and (bare or row.model != "majority")
            and (model_class(row.model).edges != "none") == sees_graph
        ]  # fmt: skip
        if not rows:
            return None
        pool = [*map(self._load, sorted(rows, key=_rank))]
        shares = self._shares(pool) if self.wanted.options.combine else {0: 1.0}
        if len(shares) == 1:
            return pool[0]
        experts, parts = [pool[place] for place in shares], [*shares.values()]
        average = _mix(experts, parts, "none")
        if not judge_combination(average, pool[0].trained, pool[0].row.title).better:
            return pool[0]
        row = Row(f"average of {_list(experts, parts)}", "mixture", "")
        row.val = average.history[0][f"val_{self.metric}"]
        return Found(average, row)

    def _read(self) -> None:
        """Take up an interrupted search; a larger budget takes up what was skipped before."""
        if not (self.folder / SEARCH).is_file():
            return
        with suppress(DamagedFileError, KeyError, TypeError):
            said = self.folder.read_json(SEARCH)
            if said["graph"] != self.graph.fingerprint or said["split"] != self.split.sha256:
                raise InputError(
                    f"{self.wanted.base.data.dataset} has changed since {self.folder.path} was "
                    "begun; remove that folder, or name another with --runs."
                )
            self._before = float(said["seconds"])
            more = self.budget > float(said["budget"])
            for key, one in said["rows"].items():
                row = Row(**one)
                if more and row.state in ("skipped", "stopped"):
                    continue
                if row.state == "finished" and not self._is_current(row):
                    continue
                self.rows[key] = row
            self.curves = dict(said["curves"])
            if not more:
                self.shorter = dict(said["shorter"])

    def _is_current(self, row: Row) -> bool:
        """Whether a finished candidate is of what its model is now."""
        folder = RunFolder(self.folder / CANDIDATES / row.name)
        with suppress(NcgnnError, OSError):
            return is_current(folder.read_config().model.model_dump(), folder.read_json(RESULT))
        return False  # it is gone

    def keep(self, seconds: float | None = None) -> None:
        """Keep what is known so far, and how long it took.

        Args:
            seconds: How long that is, by default until now; of a search that has come to its end,
                without its combination, which one with more time makes anew.
        """
        said = {
            "graph": self.graph.fingerprint,
            "split": self.split.sha256,
            "budget": self.budget,
            "seconds": self.spent if seconds is None else seconds,
            "rows": {key: asdict(row) for key, row in self.rows.items()},
            "curves": self.curves,
            "shorter": self.shorter,
        }
        self.folder.write_json(SEARCH, said)


def _rank(row: Row) -> tuple[float, float]:
    """By which candidates are ordered, the best one first."""
    return -(row.val or 0), row.val_loss or np.inf


def _fold_seconds(row: Row) -> float:
    """How long an expert takes for one fold: until its best epoch."""
    return row.seconds * ((row.best_epoch or 0) + 1) / max(1, row.epochs)


def _list(experts: list[Found], shares: list[float] | None = None) -> str:
    """Experts in words, with their shares."""
    titles = [one.row.title.replace(", ", " ") for one in experts]
    if shares is not None:
        titles = [f"{title} ({share:.0%})" for title, share in zip(titles, shares, strict=True)]
    return ", ".join(titles)


def _test_score(trained: TrainedModel, logits: torch.Tensor, metric: Metric) -> float | None:
    """The score of test nodes; None where there are none."""
    if not len(trained.split.test):
        return None
    nodes = torch.from_numpy(trained.split.test.copy()).to(logits.device)
    labels = trained.inputs.labels.index_select(0, nodes)
    return score(metric, logits.index_select(0, nodes), labels)
