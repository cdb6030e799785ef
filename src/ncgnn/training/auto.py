"""``auto``: candidates within a time budget, chosen by validation, and their combination.

Every candidate is an ordinary run in the folder of the search, so that an interrupted search
continues with what it had. Labels of test nodes play no part until all is chosen; they are then
what every row of the leaderboard is measured by.

======================  =======================================================================
``search.json``         the candidates so far, and the time that they took
``chosen.json``         the name of the run that it has ended with
``candidates/``         their runs
``folds/``              what experts answer for training nodes that they have not seen
======================  =======================================================================

The run that is chosen, a candidate or a mixture of some, is an ordinary run beside the others, with
all of the search in its ``auto.json``.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from ncgnn.data import keep_folder
from ncgnn.errors import InputError, NcgnnError, sentence
from ncgnn.nn import model_class
from ncgnn.training.candidates import AutoConfig, Candidate, list_candidates
from ncgnn.training.combination import (
    MOST_EXPERTS,
    answer_unseen,
    is_better,
    make_mixture,
    select_average,
    train_gate,
)
from ncgnn.training.evaluation import score
from ncgnn.training.folder import (
    DATASET,
    ENVIRONMENT,
    RESULT,
    SPLIT,
    TRIED,
    WEIGHTS,
    DamagedFileError,
    RunFolder,
    environment,
    read_tensors,
    tensors_sha256,
    trained_tensors,
)
from ncgnn.training.folder import DONE as MARKER
from ncgnn.training.folds import draw_folds
from ncgnn.training.loading import new_inputs, read_trained
from ncgnn.training.refit import REFIT
from ncgnn.training.run import RunResult, finished_run, train_run
from ncgnn.training.verdict import evaluated_nodes, judge

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ncgnn.data import Split
    from ncgnn.graph import Graph
    from ncgnn.nn import Gate
    from ncgnn.training.config import RunConfig
    from ncgnn.training.evaluation import Metric
    from ncgnn.training.trained import TrainedModel
    from ncgnn.training.trainer import Record

SEARCH, CHOSEN, CANDIDATES, FOLDS = "search.json", "chosen.json", "candidates", "folds"
#: Folder of all searches, beside the runs.
SEARCHES = ".auto"

# A candidate's time is known after this many epochs.
_TIMED = 3
# How many epochs are expected of the first candidate; of later ones, as many as others needed.
_USUAL_EPOCHS = 120
# A candidate with fewer epochs than this share of the usual number is not worth beginning.
_LEAST_SHARE = 0.4
# Epochs at which a candidate with other rates is compared with the model's earlier ones, and by how
# much it may be behind them; a model that is so far behind the best one is not tried with others.
_CHECKS, _BEHIND, _FAR = (20, 40, 80), 0.02, 0.05
# Shares of the budget: what the combination may take, and what is left for the end.
_COMBINING, _ENDING = 0.4, 0.03
# Those that may be combined: the best of every model, and so many of the best of all.
_BEST = 5

#: Why a candidate is not begun that was never looked at.
NO_TIME = "no time was left"
State = Literal["finished", "stopped", "skipped", "failed"]


@dataclass
class Row:
    """A candidate on the leaderboard.

    Attributes:
        title: What people call it.
        model: The model's name.
        name: The name of its run.
        state: What has become of it.
        val: Validation score.
        val_loss: Cross-entropy of validation nodes.
        test: Score of test nodes, by the same metric; measured when everything is chosen.
        seconds: How long it took.
        epochs: How many were trained.
        best_epoch: The best of them.
        train_accuracy: Of the best epoch, with dropout.
        val_accuracy: Of the best epoch.
        why: Why it was skipped or stopped, or what is wrong.
    """

    title: str
    model: str
    name: str
    state: State = "skipped"
    val: float | None = None
    val_loss: float | None = None
    test: float | None = None
    seconds: float = 0.0
    epochs: int = 0
    best_epoch: int | None = None
    train_accuracy: float | None = None
    val_accuracy: float | None = None
    why: str = ""


class AutoWatcher:
    """Hears of a search; does nothing."""

    def on_plan(self, candidates: Sequence[Candidate], seconds: float, spent: float) -> None:
        """What will be tried, how long it may take, and how long it took before."""

    def on_epoch(self, title: str, record: Record, spent: float, best: float | None) -> None:
        """An epoch of a candidate; ``best`` is the highest validation score of those before."""

    def on_row(self, row: Row) -> None:
        """What has become of a candidate."""

    def on_stage(self, text: str) -> None:
        """What happens next."""


@dataclass(frozen=True, eq=False)
class Found:
    """What a search has found.

    Attributes:
        trained: The model.
        row: Its row: that of a candidate, or of a combination.
    """

    trained: TrainedModel
    row: Row


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
    ) -> None:
        self.wanted, self.graph, self.folder, self.given = wanted, graph, RunFolder(folder), split
        self.split = wanted.base.make_split(graph) if split is None else split
        self.watcher = AutoWatcher() if watcher is None else watcher
        self.stop = (lambda: False) if stop is None else stop
        self.controls = controls
        self.metric: Metric = wanted.base.training.metric
        self.budget = wanted.options.seconds
        self.candidates = list_candidates(wanted, graph)
        self.rows: dict[str, Row] = {}
        self.curves: dict[str, list[float]] = {}
        self.combined: list[Row] = []
        self._before, self._began = 0.0, time.perf_counter()
        self._read()

    @property
    def spent(self) -> float:
        """Seconds since the search began, without those between its interruptions."""
        return self._before + time.perf_counter() - self._began

    def run(self) -> Found:
        """Try, combine and choose.

        Raises:
            KeyboardInterrupt: ``stop`` said so; the same search continues.
            NcgnnError: No candidate could be trained.
        """
        self.watcher.on_plan(self.candidates, self.budget, self.spent)
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
        found = self._choose(singles)
        self._measure()
        return Found(replace(found.trained, auto=self._facts(found)), found.row)

    def _try(self, candidate: Candidate) -> Row:
        """Train a candidate, unless there is no time for it."""
        row = Row(candidate.title, candidate.model, candidate.config.name)
        if why := self._why_not(candidate):
            return replace(row, why=why)
        attempt = _Attempt(self, candidate)
        try:
            done = attempt.train(candidate.config)
            if done is None and attempt.shorter is not None:
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
        return self._complete(row, done)

    def _why_not(self, candidate: Candidate) -> str:
        """Why a candidate is not worth beginning; empty where it is."""
        if self.available <= 0:
            return NO_TIME
        same = [r for r in self.rows.values() if r.model == candidate.model]
        if not same:
            return ""
        if candidate.fits_at_once and max(row.seconds for row in same) > self.available / 4:
            return f"would take about {about(max(row.seconds for row in same))}"
        best = max((r.val for r in self.rows.values() if r.val is not None), default=None)
        mine = max((r.val for r in same if r.val is not None), default=None)
        # What features alone can do must be known as well as what the graph can.
        if best is not None and mine is not None and candidate.sees_graph and mine < best - _FAR:
            return f"with other rates, {candidate.model} was far behind the best"
        return ""

    @property
    def available(self) -> float:
        """Seconds that are left for candidates."""
        keep = _ENDING * self.budget
        if self.wanted.options.combine:
            best = sorted(self._finished(), key=lambda row: -(row.val or 0))[:MOST_EXPERTS]
            keep += min(_COMBINING * self.budget, 2 * sum(map(_fold_seconds, best)))
        return self.budget - self.spent - keep

    def usual_epochs(self, config: RunConfig) -> int:
        """How many epochs a candidate probably needs."""
        known = [len(curve) for curve in self.curves.values() if len(curve) > 1]
        usual = int(np.median(known)) if known else _USUAL_EPOCHS
        return min(config.training.epochs, usual)

    def _complete(self, row: Row, done: RunResult) -> Row:
        """A row with what came of a run."""
        history, best = RunFolder(done.folder).history(), int(done.result["best_epoch"])
        record = history[best]
        row.state, row.epochs, row.best_epoch = "finished", len(history), best
        row.val, row.val_loss = record[f"val_{self.metric}"], record["val_loss"]
        row.train_accuracy, row.val_accuracy = record["train_accuracy"], record["val_accuracy"]
        row.seconds = max(row.seconds, done.seconds)
        self.curves[row.name] = [one[f"val_{self.metric}"] for one in history]
        return row

    def _finished(self) -> list[Row]:
        """The rows of candidates that were trained to their end."""
        return [row for row in self.rows.values() if row.state == "finished"]

    def _choose(self, rows: list[Row]) -> Found:
        """The best candidate, or a combination that is better by validation."""
        rows = sorted(rows, key=lambda row: (-(row.val or 0), row.val_loss or np.inf))
        inputs = new_inputs(self.wanted.base, self.graph)

        def load(row: Row) -> Found:
            folder = RunFolder(self.folder / CANDIDATES / row.name)
            return Found(read_trained(folder, folder.read_config(), inputs), row)

        best = load(rows[0])
        others = [row for row in rows[1:] if row.model != "majority"]
        if not self.wanted.options.combine or not others or rows[0].model == "majority":
            return best
        self.watcher.on_stage("combining the best ones")
        models = {row.model: row for row in reversed(others)}
        likely = [row for row in others if row in others[:_BEST] or models[row.model] is row]
        return self._combine([best, *map(load, likely)])

    def _combine(self, pool: list[Found]) -> Found:
        """The best of the first model, an average of some, and a mixture with a gate."""
        best, trained = pool[0], pool[0].trained
        val = torch.from_numpy(self.split.val.copy()).to(trained.inputs.device)
        labels = trained.inputs.labels.index_select(0, val)
        answers = [
            torch.log_softmax(one.trained.logits().index_select(0, val), dim=1) for one in pool
        ]
        grouped = [one.trained.model.rule is not None for one in pool]
        shares = select_average(answers, labels, 0, grouped)
        chosen = best
        if len(shares) > 1:
            experts = [pool[place] for place in shares]
            began = time.perf_counter()
            mixture = make_mixture([e.trained for e in experts], [*shares.values()], "none")
            average = self._add("average", experts, mixture, began, [*shares.values()])
            if is_better(average.trained, best.trained):
                chosen = average
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
            if kind == "full" and is_better(gated.trained, chosen.trained):
                chosen = gated
        return chosen

    def _affordable(self, experts: list[Found], best: Found) -> list[Found]:
        """Experts without those that take most time, as long as there is not enough of it."""
        kept = list(experts)
        while len(kept) > 2 and self._count_folds(kept) is None:
            kept.remove(max((e for e in kept if e is not best), key=lambda e: _fold_seconds(e.row)))
        return kept

    def _train_gate(self, experts: list[Found], kind: Gate) -> Found | None:
        """A mixture with a gate; None where there is no time to train one."""
        began = time.perf_counter()
        folds = self._count_folds(experts)
        words = {"full": "gate", "without-nc": "gate without NC", "nc": "gate of NC alone"}
        title = f"{words[kind]} over {_list(experts)}"
        if folds is None:
            need = sum(_fold_seconds(one.row) for one in experts)
            why = f"would take about {about(2 * need)}, {about(self._left)} are left"
            self.combined.append(Row(title, "mixture", "", why=why))
            self.watcher.on_row(self.combined[-1])
            return None
        labels = np.full(self.graph.num_nodes, -1, dtype=np.int64)
        labels[self.split.train] = self.graph.labels[self.split.train]
        fold = draw_folds(labels, folds, self.wanted.base.training.seed)
        equal = [1 / len(experts)] * len(experts)
        models = [one.trained for one in experts]
        full = make_mixture(models, equal, "full")
        self.watcher.on_stage(f"answers of {_list(experts)} for nodes that they have not seen")
        unseen = answer_unseen(full, models, fold, self.folder / FOLDS, self._in_fold)
        mixture = full if kind == "full" else make_mixture(models, equal, kind)
        best = min(range(len(experts)), key=lambda e: -(experts[e].row.val or 0))
        return self._add(words[kind], experts, train_gate(mixture, unseen, best), began)

    def _count_folds(self, experts: list[Found]) -> int | None:
        """In how many folds there is time to train experts once more; None if there is not."""
        need = sum(_fold_seconds(one.row) for one in experts)
        done = (self.folder / FOLDS).is_dir()  # a search that was interrupted there
        for folds in (self.wanted.options.folds, 2):
            if done or folds * need <= self._left:
                return folds
        return None

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
        row.seconds = time.perf_counter() - began
        row.train_accuracy, row.val_accuracy = None, record["val_accuracy"]
        self.combined.append(row)
        self.watcher.on_row(row)
        logits = mixture.logits()
        row.test = _test_score(mixture, logits, self.metric)
        return Found(mixture, row)

    def _measure(self) -> None:
        """Fill in the scores of test nodes; everything is chosen by now."""
        for row in self._finished():
            result = RunFolder(self.folder / CANDIDATES / row.name).read_json(RESULT)
            row.test = result["scores"].get("test", {}).get(self.metric)

    def _facts(self, found: Found) -> dict[str, Any]:
        """What ``auto.json`` says."""
        rows = [*self.rows.values()]
        plain = [
            row
            for row in self._finished()
            if model_class(row.model).family == "features" and row is not found.row
        ]
        features = max(plain, key=lambda row: row.val or 0, default=None)
        alone = None
        if features is not None:
            folder = RunFolder(self.folder / CANDIDATES / features.name)
            alone = read_trained(folder, folder.read_config(), found.trained.inputs)
        verdict = judge(found.trained, found.row, rows, alone, features)
        return {
            "metric": self.metric,
            "evaluated": evaluated_nodes(found.trained)[0],
            "budget": self.budget,
            "seconds": self.spent,
            "chosen": found.row.title,
            "candidates": [asdict(row) for row in rows],
            "combinations": [asdict(row) for row in self.combined],
            **verdict,
        }

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
                self.rows[key] = row
            self.curves = dict(said["curves"])

    def keep(self) -> None:
        """Keep what is known so far."""
        said = {
            "graph": self.graph.fingerprint,
            "split": self.split.sha256,
            "budget": self.budget,
            "seconds": self.spent,
            "rows": {key: asdict(row) for key, row in self.rows.items()},
            "curves": self.curves,
        }
        self.folder.write_json(SEARCH, said)


@dataclass
class _Attempt:
    """The training of one candidate, under the eyes of a search.

    Attributes:
        search: The search.
        candidate: The candidate.
        records: One per epoch so far.
        why: Why it was ended before its end.
        shorter: With how many epochs it would fit into the time, if not with all.
    """

    search: Search
    candidate: Candidate
    records: list[Record] = field(default_factory=list["Record"])
    why: str = ""
    shorter: int | None = None
    seconds: float = 0.0

    def train(self, config: RunConfig) -> RunResult | None:
        """Train; None where it was ended before."""
        search = self.search
        self.records, self.why, is_again = [], "", self.shorter is not None
        allowed = search.available
        began = time.perf_counter()
        times: list[float] = []

        def on_epoch(record: Record) -> None:
            self.records.append(record)
            times.append(time.perf_counter())
            best = [row.val for row in search.rows.values() if row.val is not None]
            search.watcher.on_epoch(
                self.candidate.title, record, search.spent, max(best, default=None)
            )

        def stop() -> bool:
            if search.stop():
                return True
            if self.candidate.fits_at_once:
                return False
            if len(times) == _TIMED and not is_again:
                self._plan((times[-1] - times[0]) / (_TIMED - 1), allowed, config)
            elif time.perf_counter() - began > allowed:
                self.why = "the time was up"
            elif self._is_behind():
                self.why = f"behind {self.candidate.model} with other rates"
            return bool(self.why)

        try:
            return train_run(
                config,
                search.folder / CANDIDATES,
                graph=search.graph,
                split=search.given,
                on_epoch=on_epoch,
                stop=stop,
                copies=False,
            )
        except KeyboardInterrupt:
            if not self.why:
                search.keep()
                raise
            return None
        finally:
            self.seconds += time.perf_counter() - began

    def _plan(self, epoch: float, allowed: float, config: RunConfig) -> None:
        """End a candidate that would take too long, or find out how many epochs it may have."""
        usual = self.search.usual_epochs(config)
        if epoch * usual <= allowed:
            return
        fits = int(0.9 * allowed / epoch)
        if fits >= max(_TIMED, _LEAST_SHARE * usual):
            self.shorter, self.why = fits, "fewer epochs fit into the time"
        else:
            self.records = []
            self.why = f"would take about {about(epoch * usual)}, {about(allowed)} are left"

    def _is_behind(self) -> bool:
        """Whether the same model with other rates was clearly better after as many epochs."""
        done, search = len(self.records), self.search
        if done not in _CHECKS:
            return False
        mine = max(record[f"val_{search.metric}"] for record in self.records)
        same = {row.name for row in search.rows.values() if row.model == self.candidate.model}
        return any(
            mine < max(curve[:done]) - _BEHIND
            for name, curve in search.curves.items()
            if name in same and len(curve) >= done
        )


def about(seconds: float) -> str:
    """A time in words."""
    if seconds < 90:
        return f"{max(seconds, 0):.0f} s"
    return f"{seconds / 60:.0f} min"


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


def auto_run(
    wanted: AutoConfig,
    runs: Path,
    *,
    graph: Graph,
    watcher: AutoWatcher | None = None,
    before_done: Callable[[RunFolder], object] | None = None,
    stop: Callable[[], bool] | None = None,
    controls: bool = False,
) -> RunResult:
    """Choose a model for a graph within a time, or find it chosen, and write it as a run.

    Args:
        wanted: What is asked for.
        runs: Folder of all runs.
        graph: The graph.
        watcher: Hears of the search.
        before_done: Called with the run's folder when all is written but the completion marker.
        stop: Asked after every epoch; if it says yes, all is kept and ``KeyboardInterrupt`` raised.
        controls: Whether gates without NC and of NC alone are trained as well, to compare with.
    """
    place = runs / SEARCHES / wanted.name
    with RunFolder(place).lock():
        if (done := _find_done(wanted, place, runs, graph)) is not None:
            return done
        options: dict[str, Any] = {"watcher": watcher, "stop": stop, "controls": controls}
        found = Search(wanted, graph, place, **options).run()
        run = write_found(found, runs, before_done)
        said = {"run": run.folder.name, "budget": wanted.options.seconds}
        RunFolder(place).write_json(CHOSEN, said | {"graph": graph.fingerprint})
        shutil.rmtree(place / FOLDS, ignore_errors=True)
    return run


def _find_done(wanted: AutoConfig, place: Path, runs: Path, graph: Graph) -> RunResult | None:
    """The run that an earlier search has chosen, with as much time and on the same graph."""
    folder = RunFolder(place)
    with suppress(NcgnnError, KeyError, OSError):
        said = folder.read_json(CHOSEN)
        same = said["graph"] == graph.fingerprint
        if same and float(said["budget"]) >= wanted.options.seconds:
            return finished_run(RunFolder(runs / said["run"]))
    return None


def write_found(
    found: Found, runs: Path, before_done: Callable[[RunFolder], object] | None = None
) -> RunResult:
    """Write a model as a run, which counts when its completion marker is there."""
    trained, config = found.trained, found.trained.config
    folder = RunFolder(runs / config.name)
    with folder.lock():
        if not _is_same(folder, trained):
            (folder / MARKER).unlink(missing_ok=True)
            shutil.rmtree(folder / REFIT, ignore_errors=True)
            said = environment() | {"graph_sha256": trained.graph.fingerprint}
            folder.write_json(ENVIRONMENT, said)
            folder.write_config(config)
            trained.split.save(folder / SPLIT)
            if config.data.fingerprint is not None:
                keep_folder(trained.graph, config.data.dataset, folder / DATASET)
            folder.write_history(trained.history)
            trained.write_outcome(folder)
        elif trained.auto is not None:
            folder.write_json(TRIED, dict(trained.auto))
        if before_done is not None:
            before_done(folder)
        folder.mark_done()
    return replace(finished_run(folder), fresh=True)


def _is_same(folder: RunFolder, trained: TrainedModel) -> bool:
    """Whether a run is finished already, with the same weights."""
    with suppress(NcgnnError, OSError):
        folder.check()
        tensors, _ = read_tensors(folder / WEIGHTS)
        mine = trained_tensors(trained.model, trained.grouping)
        return tensors_sha256(tensors) == tensors_sha256(mine)
    return False


def auto_fit(
    wanted: AutoConfig,
    graph: Graph,
    split: Split,
    on_epoch: Callable[[Record], None] | None = None,
) -> TrainedModel:
    """Choose a model for a graph in memory; nothing is left on disk."""

    class _Tell(AutoWatcher):
        def on_epoch(self, title: str, record: Record, spent: float, best: float | None) -> None:
            if on_epoch is not None:
                on_epoch({"candidate": title, **record})

    with tempfile.TemporaryDirectory(prefix="ncgnn-") as place:
        found = Search(wanted, graph, Path(place), split=split, watcher=_Tell()).run()
    return found.trained
