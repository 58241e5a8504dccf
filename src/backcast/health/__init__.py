"""A doctor for logs: what is wrong with one, and how it suits a policy."""

from __future__ import annotations

from backcast.health.doctor import check
from backcast.health.findings import Finding, HealthReport, PolicyFit

__all__ = ["Finding", "HealthReport", "PolicyFit", "check"]
