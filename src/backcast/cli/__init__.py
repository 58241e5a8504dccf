"""The command line of backcast."""

from __future__ import annotations

from backcast.cli.app import main

__all__ = ["main"]
