"""Are the logger's own probabilities, where all of them are on record, kept?"""

from __future__ import annotations

import math

import numpy as np

from backcast.health.case import Case
from backcast.health.evidence import SURE, balance_evidence
from backcast.health.findings import Finding

__all__ = ["logging_probabilities"]

BINS = 10


def logging_probabilities(case: Case) -> Finding | None:
    """Every action was taken as often as the logger's probabilities say, and so were the likely and the unlikely."""
    table = case.log._logging
    if table is None or case.log.propensities_estimated:
        return None
    taken = np.zeros(table.shape)
    taken[np.arange(case.n), case.log._actions] = 1.0
    surplus, variance = taken - table, table * (1 - table)
    bins = np.minimum((table * BINS).astype(np.int64), BINS - 1).ravel()
    gaps = [
        balance_evidence(surplus.sum(axis=0), variance.sum(axis=0)),
        balance_evidence(
            np.bincount(bins, weights=surplus.ravel(), minlength=BINS),
            np.bincount(bins, weights=variance.ravel(), minlength=BINS),
        ),
    ]
    tests = case.log.n_actions + BINS
    evidence = max(float(gap.max()) for gap in gaps)
    off = float(np.abs(surplus.sum(axis=0)).max() / case.n)
    if evidence - math.log(tests) < SURE:
        message = f"each action was taken as often as its probabilities say, within {off:.2g} of the events"
        return Finding("logging_probabilities", "ok", off, message)
    worst = int(gaps[0].argmax())
    message = (
        f"action {case.log.action_labels[worst]!r} was taken {int(case.counts[worst]):,} times where its recorded "
        f"probabilities sum to {float(table[:, worst].sum()):,.1f}"
        if float(gaps[0].max()) >= float(gaps[1].max())
        else f"actions of probability near {int(gaps[1].argmax()) / BINS:.1f} were not taken that often"
    )
    remedy = "The recorded probabilities are not those that actions were drawn from: record what the logger used"
    return Finding("logging_probabilities", "fail", off, message, remedy)
