"""Simulated worlds whose values are known."""
