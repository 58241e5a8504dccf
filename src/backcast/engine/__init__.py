"""Compiled kernels and the drivers that run policies through a log."""
