"""The command line: thin words around the library."""

from __future__ import annotations

from backcast.cli.app import main

__all__ = ["main"]
