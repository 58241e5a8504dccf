"""Estimates to text, charts and HTML; never computes a statistic."""
