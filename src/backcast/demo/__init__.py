"""An embedded log to try things on: a news page, made anew from a seed whenever it is asked for."""

from __future__ import annotations

from backcast.demo.news import ARTICLES, COLUMNS, FEATURES, news_log, write_news

__all__ = ["ARTICLES", "COLUMNS", "FEATURES", "news_log", "write_news"]
