"""Compiled loops of Algorithm 1, clock replay and forward simulation (private)."""
