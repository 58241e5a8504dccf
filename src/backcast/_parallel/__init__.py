"""Jobs on one or many processes, with checkpoints (private)."""
