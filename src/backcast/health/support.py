"""Actions that nobody ever saw."""

from __future__ import annotations

import math

import numpy as np

from backcast.health.case import Case
from backcast.health.evidence import SURE
from backcast.health.findings import Finding

__all__ = ["unsupported_actions"]

SHOWN = 5


def unsupported_actions(case: Case) -> Finding:
    """Every eligible action was taken at least once, unless it was too rare to be expected."""
    unseen = np.flatnonzero(~case.seen & (case.chances > 0))
    if not unseen.size:
        return Finding("unsupported_actions", "ok", 0.0, f"all {case.log.n_actions} actions were taken")
    # were it as likely as the rarest choice on record, would it have been seen?
    overdue = case.chances[unseen] * float(case.log._propensities.min()) - math.log(case.log.n_actions)
    never = unseen[overdue >= SURE]
    if not never.size:
        message = (
            f"{unseen.size} of {case.log.n_actions} actions were not taken, but too few events tell whether they could"
        )
        return Finding("unsupported_actions", "ok", float(unseen.size), message)
    names = ", ".join(repr(case.log.action_labels[action]) for action in never[:SHOWN].tolist())
    more = f" and {never.size - SHOWN} more" if never.size > SHOWN else ""
    message = f"{never.size} of {case.log.n_actions} actions were never taken: {names}{more}"
    remedy = (
        "Nothing can be said of policies that take them, but what a reward model says. Leave them out of n_actions, or "
        "mark them as not `available`"
    )
    return Finding("unsupported_actions", "warn", float(never.size), message, remedy)
