"""Propensities estimated from the log, where none were recorded."""
