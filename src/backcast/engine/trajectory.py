"""What a run leaves behind of each simulated history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from backcast.arrays import FloatArray, IntArray

__all__ = ["Trajectory"]


@dataclass(frozen=True)
class Trajectory:
    """One simulated history: its sums, and the row numbers of the accepted events in order with their block weights.

    Rows and weights are empty where the run was told not to keep them.
    """

    sums: npt.NDArray[Any]
    complete: bool
    order: IntArray
    block_weights: FloatArray

    @property
    def accepted(self) -> int:
        """Length of the history, t."""
        return int(self.sums["accepted"])

    @property
    def open_weight(self) -> float:
        """``c_t |B(t)|`` of the block that no acceptance has ended."""
        return float(self.sums["weight"] - self.sums["closed_weight"])

    @property
    def value(self) -> float:
        """``R / C`` (Algorithm 1, step 3); of a history that reached its horizon, up to the last acceptance."""
        return float(self.sums["reward"] / self.sums["weight"])

    @property
    def value_per_round(self) -> float:
        """``R / T`` over the blocks completed (nan where there is none)."""
        return float(self.sums["closed_reward"] / self.accepted) if self.accepted else float("nan")

    @property
    def mean_accepted_reward(self) -> float:
        """Mean reward of the accepted events (nan where there is none)."""
        return float(self.sums["accepted_reward"] / self.accepted) if self.accepted else float("nan")


def joined(arrays: list[npt.NDArray[Any]], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Arrays end to end; an empty one of the type where there is none.

    >>> joined([np.array([1, 2]), np.array([3])], np.int64)
    array([1, 2, 3])
    """
    return np.concatenate(arrays) if arrays else np.zeros(0, dtype=dtype)
