"""Policies: the protocol, the built-in families, adapters."""
