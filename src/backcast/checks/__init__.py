"""Checks of logs, and contract tests for policies, evaluators, intervals and reward models."""

from backcast._lazy_imports import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
