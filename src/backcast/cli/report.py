"""``backcast report``: a page from a saved result."""

from __future__ import annotations

from typing import Annotated

import typer

from backcast.cli import options as o
from backcast.errors import BackcastError, SourceError

__all__ = ["report"]

Drawing = Annotated[str | None, typer.Option(metavar="FILE", help="Write the chart of values to this file too.")]


def report(
    result: Annotated[str, typer.Argument(metavar="RESULT.JSON", help="What evaluate or compare wrote with --out.")],
    report: Annotated[str, typer.Option(metavar="FILE", help="Where the HTML report goes.")] = "report.html",
    png: Drawing = None,
    svg: Drawing = None,
    json: o.JSON = False,
    quiet: o.QUIET = False,
) -> None:
    """Make the HTML report of a saved result again, without running anything again."""
    from backcast.cli.charts import save_chart
    from backcast.cli.output import check_places
    from backcast.cli.settings import Settings
    from backcast.cli.speech import print_json, say
    from backcast.disk import check_place
    from backcast.report.charts import forest_chart
    from backcast.report.html import save_report
    from backcast.saved import load_result

    check_places(Settings({"report": report}))
    for place in filter(None, (png, svg)):
        check_place(place, "chart")
    saved = load_result(result)
    try:
        written = {"report": str(save_report(saved.result, report, about=saved.about, health=saved.health))}
        for kind, path in (("png", png), ("svg", svg)):
            if path is not None:
                written[kind] = str(save_chart(forest_chart(saved.result), path, kind))
    except BackcastError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
        # all that is drawn comes from the file, and its values may be of the right kind and yet make no sense together
        raise SourceError(f"{result}: the result is damaged, so it cannot be drawn ({problem})") from None
    if json:
        print_json({**written, "partial": saved.partial})
    elif not quiet:
        for kind, where in written.items():
            say(f"The {'report' if kind == 'report' else 'chart'} is in {where}")
