"""The folder of a study."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncgnn._locks import locked

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


@dataclass(frozen=True)
class StudyPlace:
    """Where a study is kept.

    Attributes:
        folder: Folder of the study.
        name: Of the study.
        url: Of a database; None stands for a journal in the folder.
    """

    folder: Path
    name: str
    url: str | None = None

    @property
    def journal(self) -> Path:
        """The file of all that ever happened in the study."""
        return self.folder / "journal.jsonl"

    @property
    def trials(self) -> Path:
        """The folder of all that trials leave behind before they end."""
        return self.folder / "trials"

    def runs_of(self, number: int) -> Path:
        """The folder of the runs of a trial."""
        return self.trials / f"{number:05d}"

    def lock_of(self, number: int) -> Path:
        """The file that the process of a trial keeps locked."""
        return self.folder / "locks" / f"{number:05d}"

    @contextmanager
    def exclusive(self) -> Generator[None]:
        """One process of this machine at a time."""
        with locked(self.folder / "study.lock"):
            yield


@contextmanager
def quiet() -> Generator[None]:
    """Keep Optuna from speaking of its own affairs."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", message="Heartbeat of storage")
        try:
            yield
        finally:
            optuna.logging.set_verbosity(before)
