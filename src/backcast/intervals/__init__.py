"""One file, one interval; each states its assumption and its estimand."""
