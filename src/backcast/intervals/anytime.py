"""An interval for one run that holds at every moment, whatever the logger learned on the way.

Empirical Bernstein by the gamma-exponential mixture of Howard, Ramdas, McAuliffe, Sekhon, "Time-uniform,
nonparametric, nonasymptotic confidence sequences", Annals of Statistics 2021.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import optimize, special

from backcast.options import at_least

__all__ = ["Anytime", "log_mixture", "mixture_boundary"]


def log_mixture(deviation: float, variation: float, rho: float) -> float:
    """Logarithm of the gamma-exponential mixture supermartingale at ``S = deviation``, ``V = variation``.

    ``s + v + rho log rho - (v+rho) log(s+v+rho) + log g(v+rho, s+v+rho) - log g(rho, rho)``, where g is the lower
    incomplete gamma function (Howard et al. 2021, Proposition 9).

    >>> round(log_mixture(0.0, 0.0, 1.0), 12)
    0.0
    """
    shape, reach = variation + rho, deviation + variation + rho
    return (
        deviation
        + variation
        + rho * math.log(rho)
        - shape * math.log(reach)
        + _log_lower_gamma(shape, reach)
        - _log_lower_gamma(rho, rho)
    )


def _log_lower_gamma(shape: float, reach: float) -> float:
    return float(special.gammaln(shape) + math.log(special.gammainc(shape, reach)))


def mixture_boundary(variation: float, rho: float, alpha: float) -> float:
    """The deviation that is exceeded, ever, with probability at most ``alpha``.

    >>> boundary = mixture_boundary(variation=10.0, rho=1.0, alpha=0.05)
    >>> round(math.exp(-log_mixture(boundary, 10.0, 1.0)), 6)
    0.05
    """
    goal = math.log(1 / alpha)
    high = 1.0
    while log_mixture(high, variation, rho) < goal:
        high *= 2
    return float(optimize.brentq(lambda s: log_mixture(s, variation, rho) - goal, 0.0, high, xtol=1e-10))


@dataclass(frozen=True)
class Anytime:
    """Anytime-valid empirical Bernstein interval for V(pi_PV) of a single run.

    Assumption: martingale: any log order, any logger that does not look ahead, any stopping time; rewards within the
    declared range. Estimand: V(pi_PV).

    Parameters
    ----------
    largest_weight
        A known bound on ``pi/p``; None takes one over the smallest propensity of the log.
    rho
        Where the boundary is tightest, in units of scaled variation; fixed before looking at the log.

    Examples
    --------
    >>> low, high = Anytime().ends(reward=50.0, weight=100.0, variation=25.0, scale=1.0, level=0.95)
    >>> round((low + high) / 2, 6), round(high - low, 2)
    (0.5, 0.39)
    """

    largest_weight: float | None = None
    rho: float = 1.0

    def __post_init__(self) -> None:
        at_least("rho", self.rho, 0.0, strict=True)
        if self.largest_weight is not None:
            at_least("largest_weight", self.largest_weight, 0.0, strict=True)

    def ends(self, reward: float, weight: float, variation: float, scale: float, level: float) -> tuple[float, float]:
        """The two ends from ``sum c R``, ``sum c``, ``sum (c R - c mean)^2`` and the bound on one step."""
        reach = scale * mixture_boundary(variation / scale**2, self.rho, (1 - level) / 2)
        return (reward - reach) / weight, (reward + reach) / weight
