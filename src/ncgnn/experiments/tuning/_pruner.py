"""When a trial is given up: it is worse than the median of the others at the same place."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from optuna.pruners import BasePruner
from optuna.trial import TrialState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optuna import Study
    from optuna.trial import FrozenTrial

#: Trials may be pruned once so many different ones are complete.
BEFORE_PRUNING = 5
#: More than any stage of training has reports, and more than any training has stages.
_REPORTS, _STAGES = 100_000, 10


def step_of(seed_place: int, stage: int, report: int) -> int:
    """Optuna's number of a report.

    Args:
        seed_place: Place of the seed among those of the trial.
        stage: Number of the stage of this seed's training.
        report: Number of the report in the stage, from 1.
    """
    return (seed_place * _STAGES + stage) * _REPORTS + report


class MedianAtStep(BasePruner):
    r"""Prunes a trial whose latest report is below the median of complete trials at that step.

    The median rule of Golovin et al., "Google Vizier: A Service for Black-Box Optimization",
    https://doi.org/10.1145/3097983.3098043, section 3.2.2. Let :math:`v_t(s)` be the best
    validation accuracy of trial :math:`t` up to step :math:`s`, within the seed and the stage of
    training that the step belongs to. Trial :math:`t` is pruned at step :math:`s` if

    .. math:: v_t(s) < \operatorname{median}_{u \text{ complete}} v_u(s).

    A trial that has ended the stage before step :math:`s` takes part with its last report. Trials
    that repeat an earlier one do not count. Optuna's ``MedianPruner`` compares the maximum over all
    steps of a trial instead, so that a good first seed or stage would save it for ever.

    Args:
        warm_up: Number of reports that are not judged, at the beginning of every seed and stage.
    """

    def __init__(self, warm_up: int) -> None:
        self._warm_up = warm_up

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Whether the trial is to be given up."""
        step = trial.last_step
        if step is None or step % _REPORTS <= self._warm_up:
            return False
        complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        others = [
            _value_at(step, other.intermediate_values)
            for other in complete
            if "repeats" not in other.user_attrs
        ]
        known = [value for value in others if value is not None]
        if len(known) < BEFORE_PRUNING:
            return False
        return trial.intermediate_values[step] < statistics.median(known)


def _value_at(step: int, reports: Mapping[int, float]) -> float | None:
    """The latest report up to a step, of the same seed and stage."""
    first = step - step % _REPORTS
    reported = [one for one in reports if first < one <= step]
    return reports[max(reported)] if reported else None
