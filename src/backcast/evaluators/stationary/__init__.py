"""Estimators for policies that do not learn: one pass over the log, one equation each."""
