"""Results as text, charts and HTML."""

from backcast.report.html import save_report as save_report

__all__: list[str]
