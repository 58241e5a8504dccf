"""Checks of logs, and contract tests for policies."""

from backcast.checks.findings import Finding as Finding
from backcast.checks.findings import HealthReport as HealthReport
from backcast.checks.findings import PolicyFit as PolicyFit
from backcast.checks.log import check as check
from backcast.checks.policy import PolicyReport as PolicyReport
from backcast.checks.policy import check_policy as check_policy

__all__: list[str]
