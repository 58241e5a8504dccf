"""Reward models, and wrappers that keep their predictions out of sample."""

from backcast._lazy_imports import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
