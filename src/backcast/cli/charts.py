"""Charts to files, with errors of ours."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from backcast.errors import OptionError

__all__ = ["save_chart"]

SHARPNESS = 2.0  # pixels a unit, for screens of today


def save_chart(chart: Any, path: str, kind: str) -> Path:
    """Write a chart as "html", "png" or "svg", and say where it is."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise OptionError(f"the chart cannot be written to {path!r}: there is no folder {folder!r}")
    try:
        # inlined: the page asks nothing of other servers
        chart.save(path, format=kind, **({"inline": True} if kind == "html" else {"scale_factor": SHARPNESS}))
    except OSError as problem:
        raise OptionError(f"the chart cannot be written to {path!r}: {problem.strerror or problem}") from None
    return Path(path).resolve()
