"""Checks of logs, and contract tests for policies, evaluators, intervals and reward models."""

from backcast.checks.evaluator import check_evaluator as check_evaluator
from backcast.checks.findings import ContractReport as ContractReport
from backcast.checks.findings import Finding as Finding
from backcast.checks.findings import HealthReport as HealthReport
from backcast.checks.findings import PolicyFit as PolicyFit
from backcast.checks.interval import check_interval as check_interval
from backcast.checks.log import check as check
from backcast.checks.policy import PolicyReport as PolicyReport
from backcast.checks.policy import check_policy as check_policy
from backcast.checks.reward_model import check_reward_model as check_reward_model

__all__: list[str]
