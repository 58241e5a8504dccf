"""Estimate missing propensities and join the logs of several loggers."""

from backcast._lazy_imports import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
