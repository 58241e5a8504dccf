"""Load the public names of a package on first use, as its ``__init__.pyi`` lists them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable

LazyNames = tuple[Callable[[str], object], Callable[[], list[str]], list[str]]


def lazy_names(package: str, init_file: str) -> LazyNames:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` for a package whose stub has one import per public name.

    The stub is what type checkers and editors read, so every name is written once (the idea of SPEC 1 and
    ``lazy_loader``; that package is not used because of its import race before Python 3.11.9).
    """
    # one import per line; parsing them as Python would take most of the import of the package
    stub = init_file + "i"
    with open(stub, encoding="utf-8") as file:
        lines = [line.split() for line in file if line.startswith("from backcast")]
    homes = {words[3]: words[1] for words in lines}

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if homes[name] == package:
            return importlib.import_module(f"{package}.{name}")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)  # found without this function from now on
        return value

    public = sorted(homes)
    listed = sorted([*public, "__version__"]) if package == "backcast" else public
    return load, lambda: listed, public
