"""Read logs from files, frames and other systems."""

from backcast._lazy_imports import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
