"""Numba plumbing: compilation, dispatch and context layouts (private)."""
