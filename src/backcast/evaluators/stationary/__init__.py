"""Estimators for policies that do not learn: one pass over the log, one equation each."""

from __future__ import annotations

from backcast.evaluators.stationary.baseline import BaselineIPS
from backcast.evaluators.stationary.cab import CAB
from backcast.evaluators.stationary.clipped import ClippedIPS
from backcast.evaluators.stationary.doubly_robust import DR, SNDR
from backcast.evaluators.stationary.ips import IPS
from backcast.evaluators.stationary.mrdr import MRDR
from backcast.evaluators.stationary.shrinkage import PessimisticDR, ShrinkageDR, SubGaussian
from backcast.evaluators.stationary.snips import SNIPS
from backcast.evaluators.stationary.switch import SwitchDR

__all__ = [
    "CAB",
    "DR",
    "IPS",
    "MRDR",
    "SNDR",
    "SNIPS",
    "BaselineIPS",
    "ClippedIPS",
    "PessimisticDR",
    "ShrinkageDR",
    "SubGaussian",
    "SwitchDR",
]
