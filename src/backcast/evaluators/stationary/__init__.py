"""Estimators for policies that do not learn: one pass over the log, one equation each."""

from __future__ import annotations

from backcast.evaluators.stationary.doubly_robust import DR, SNDR
from backcast.evaluators.stationary.ips import IPS
from backcast.evaluators.stationary.snips import SNIPS

__all__ = ["DR", "IPS", "SNDR", "SNIPS"]
