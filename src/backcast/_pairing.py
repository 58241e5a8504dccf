"""Pairing: how precise the difference of two estimates is, by what they have in common."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from backcast._differences import UNPAIRED
from backcast.errors import EvaluationError
from backcast.estimate import PAIRED_BY_EVENT, Estimate, Precision


class Pairing:
    """How precise the difference of two estimates is, by what they have in common.

    Policies that were run jointly are paired by their passes, fixed policies event by event by the influences of
    events on their values, and a fixed policy with one that was run in passes by the influences on both. Otherwise
    errors are added as if they were independent. ``first_column`` is that of the first of them in the passes.
    """

    def __init__(
        self, estimates: Mapping[str, Estimate], joint: Sequence[str], passes: Any, first_column: int = 0
    ) -> None:
        self._estimates, self._passes = list(estimates.values()), passes
        names = list(estimates)
        self._place = {} if passes is None else {names.index(name): first_column + i for i, name in enumerate(joint)}

    def precision(self, a: int, b: int) -> Precision:
        """Return the precision of the difference of two estimates."""
        first, second = self._estimates[a], self._estimates[b]
        precision: Precision | None = None
        if a in self._place and b in self._place:
            precision = self._passes.difference_precision(self._place[a], self._place[b])
        one, other = first.influences, second.influences
        if precision is None and (a in self._place or b in self._place):
            joint, influences = (a, other) if a in self._place else (b, one)
            has_common_events = influences is not None and influences.size == getattr(self._passes, "n_events", None)
            if has_common_events and hasattr(self._passes, "fixed_difference_precision"):
                precision = self._passes.fixed_difference_precision(self._place[joint], influences)
        elif precision is None and one is not None and other is not None and one.size == other.size:
            difference = one - other
            return Precision(float(difference.var(ddof=1) / difference.size), 0.0, math.inf, PAIRED_BY_EVENT)
        if precision is not None:
            return precision
        for estimate in (first, second):
            if not math.isfinite(estimate.std_error):
                raise EvaluationError(
                    f"{estimate.evaluator} gives no standard error here, so policies cannot be compared with it"
                )
        return Precision(first.std_error**2 + second.std_error**2, 0.0, math.inf, UNPAIRED)
