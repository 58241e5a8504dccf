"""Scavenged exploration: propensities that nobody wrote down, and logs of several loggers."""

from __future__ import annotations

from backcast.propensities.estimate import (
    PropensityDiagnostics,
    PropensityEstimate,
    estimate_propensities,
    with_estimated_propensities,
)
from backcast.propensities.mixture import mix_logs

__all__ = [
    "PropensityDiagnostics",
    "PropensityEstimate",
    "estimate_propensities",
    "mix_logs",
    "with_estimated_propensities",
]
