"""Evaluators of fixed and of learning policies."""

from backcast._lazy_imports import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
