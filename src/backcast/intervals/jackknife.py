"""Standard errors for a learning policy: the infinitesimal jackknife over groups of the log.

Spread over permutations of one log is only Monte-Carlo noise: it says nothing of another log, and is never offered as
a standard error. Leaving groups out does: how the estimate moves with each group's presence is its influence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from backcast.arrays import FloatArray
from backcast.options import count

__all__ = ["GroupJackknife", "Influence", "group_influence"]


class Influence(NamedTuple):
    """Covariance of the estimates over logs, and how much of its raw figure was Monte-Carlo noise (taken off).

    ``doubt`` is how far the variances may be off because that noise was taken off by its mean, as a standard deviation.
    """

    covariance: FloatArray
    noise_share: float
    doubt: FloatArray


def group_influence(estimates: FloatArray, member: FloatArray) -> Influence:
    """Covariance over logs from replicates on subsets of groups.

    With ``N_bg`` in {0, 1} the presence of group g in replicate b, s groups of G in each, and
    ``C_g = mean_b (N_bg - s/G)(theta_b - mean theta)``, the covariance is
    ``(G-1)/G (G/(G-s))^2 [sum_g C_g C_g' - s(G-s)/G v/B]``, where v is the covariance of the replicates (infinitesimal
    jackknife for subsampling without replacement, Wager & Athey 2018, on groups of events). What is taken off is the
    mean of the noise; the noise itself is a sum of G squares with G - 1 degrees of freedom, so it strays from its mean
    by ``sqrt(2 / (G-1))`` of it.

    Parameters
    ----------
    estimates
        ``(B, m)``: m quantities in each of B replicates.
    member
        ``(B, G)``: which groups were in which replicate.

    Examples
    --------
    Two groups, one at a time, worth 0 and 1: the mean of both has variance 1/4 around it, up to (G-1)/G.

    >>> found = group_influence(np.array([[0.0], [1.0]] * 50), np.array([[1.0, 0.0], [0.0, 1.0]] * 50))
    >>> round(float(found.covariance[0, 0]), 3)
    0.247
    """
    replicates, groups = member.shape
    taken = member[0].sum()
    centred = estimates - estimates.mean(axis=0)
    pull = (member - taken / groups).T @ centred / replicates
    scale = (groups - 1) / groups * (groups / (groups - taken)) ** 2
    noise = taken * (groups - taken) / groups * (centred.T @ centred) / replicates**2
    raw = pull.T @ pull
    share = float(np.trace(noise) / max(np.trace(raw), np.finfo(float).tiny))
    doubt = scale * np.diag(noise) * np.sqrt(2 / (groups - 1))
    return Influence(np.asarray(scale * (raw - noise)), share, np.asarray(doubt))


@dataclass(frozen=True)
class GroupJackknife:
    """Interval for V_T(pi) of a learning policy: the value from the whole log, the error from subsets of groups.

    Assumption: independent (an exchangeable log). Estimand: V_T(pi).

    Parameters
    ----------
    groups
        Random groups the log is cut into.
    taken
        Groups in each replicate; None takes a quarter, more where the horizon needs it.

    Examples
    --------
    >>> GroupJackknife().groups
    30
    """

    groups: int = 30
    taken: int | None = None

    def __post_init__(self) -> None:
        count("groups", self.groups, 10)
        if self.taken is not None:
            count("taken", self.taken, 1)
