"""NotebookDisplay: results as HTML in notebooks."""

from __future__ import annotations

from collections.abc import Iterable


class NotebookDisplay:
    """Display of a result in a notebook: HTML where it is supported, text elsewhere."""

    def _repr_html_(self) -> str:
        from backcast.report.notebook import display_html

        return display_html(self)

    def _repr_mimebundle_(
        self, include: Iterable[str] | None = None, exclude: Iterable[str] | None = None
    ) -> dict[str, str]:
        from backcast.report.notebook import mime_bundle

        return mime_bundle(str(self), self._repr_html_(), include, exclude)
