"""Reward models and the wrappers that keep them honest."""
