"""One file, one method, one citation."""
