"""How likely an interval is to exclude 0: Student's t with few degrees of freedom, or the normal law."""

from __future__ import annotations

import math

import numpy as np
from scipy import optimize, stats

__all__ = ["critical_distance", "distance_for", "power_of"]


def critical_distance(level: float, freedom: float) -> float:
    """Standard errors on either side of an interval."""
    return float(stats.t.ppf((1 + level) / 2, freedom) if math.isfinite(freedom) else stats.norm.ppf((1 + level) / 2))


def power_of(distance: float, critical: float, freedom: float) -> float:
    """Chance that an interval excludes 0 on the right side, the truth being so many standard errors away."""
    if not math.isfinite(freedom):
        return float(stats.norm.sf(critical - distance))
    # beyond 30 standard errors scipy's noncentral t may fail, and nothing is left to tell
    return 1.0 if distance > 30 else float(np.clip(stats.nct.sf(critical, freedom, distance), 0, 1))


def distance_for(power: float, critical: float, freedom: float) -> float:
    """Standard errors that the truth must be away from 0 for this power.

    >>> round(distance_for(0.8, critical_distance(0.95, math.inf), math.inf), 4)
    2.8016
    """
    if not math.isfinite(freedom):
        return critical + float(stats.norm.ppf(power))
    return float(optimize.brentq(lambda distance: power_of(distance, critical, freedom) - power, 0.0, 30.0))
