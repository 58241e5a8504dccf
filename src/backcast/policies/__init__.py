"""Policies: fixed, learning, and adapters for models of the user."""

from backcast._lazy_imports import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
