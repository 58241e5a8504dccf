"""Values and standard errors of policies while their passes run, for the progress line; nothing is decided by them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from backcast._arrays import FloatArray
from backcast._parallel.jobs import Execution
from backcast.evaluators._passes import FEWEST_PASSES, InfluenceTable, PassResult


@dataclass
class PassValues:
    """Means of passes so far, with standard errors once there are enough passes for one.

    The variance over logs is found again whenever the number of passes has doubled; from one pass to the next only the
    Monte-Carlo variance changes much.
    """

    n_policies: int
    n_events: int
    execution: Execution
    _sampling: list[float] = field(default_factory=list)
    _known_from: int = 0

    def show(self, passes: Sequence[Sequence[PassResult]]) -> None:
        """Report the means of these passes, by pass and policy; further columns are readings."""
        rows = [row[: self.n_policies] for row in passes]
        values = np.array([[result.value for result in row] for row in rows])
        if np.isnan(values).any():
            return
        n_passes = len(rows)
        if n_passes < self._known_from:
            self._sampling, self._known_from = [], 0  # other passes
        if n_passes >= max(FEWEST_PASSES, 2 * self._known_from) and rows[0][0].reading.size:
            table = InfluenceTable(rows, self.n_events)
            self._sampling = [table.of_value(policy).sampling for policy in range(self.n_policies)]
            self._known_from = n_passes
        monte_carlo = values.var(axis=0, ddof=1) / n_passes if n_passes > 1 else np.full(self.n_policies, math.nan)
        sampling = self._sampling or [math.nan] * self.n_policies
        errors = [math.sqrt(a + b) for a, b in zip(sampling, monte_carlo, strict=True)]
        self.execution.on_values(list(zip(values.mean(axis=0).tolist(), errors, strict=True)))


def show_parts(execution: Execution, n_policies: int) -> Callable[[Sequence[Any]], None] | None:
    """Return what reports the means over the parts of a stream so far; None if they are not wanted."""

    def show(parts: Sequence[Any]) -> None:
        values: FloatArray = np.array([[result.values.mean() for result in row[:n_policies]] for row in parts])
        if np.isnan(values).any():
            return
        errors = np.full(n_policies, math.nan)
        if len(values) > 1:
            errors = values.std(axis=0, ddof=1) / math.sqrt(len(values))
        execution.on_values(list(zip(values.mean(axis=0).tolist(), errors.tolist(), strict=True)))

    return show if execution.shows_values else None
