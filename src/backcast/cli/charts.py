"""Charts to files, with errors of ours."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from backcast.disk import whole_file

__all__ = ["save_chart"]

SHARPNESS = 2.0  # pixels a unit, for screens of today


def save_chart(chart: Any, path: str, kind: str) -> Path:
    """Write a chart as "html", "png" or "svg", and say where it is."""
    drawn: Any = io.BytesIO() if kind == "png" else io.StringIO()
    # inlined: the page asks nothing of other servers
    chart.save(drawn, format=kind, **({"inline": True} if kind == "html" else {"scale_factor": SHARPNESS}))
    content = drawn.getvalue()
    with whole_file(path, "chart") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return Path(path).resolve()
