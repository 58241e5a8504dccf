"""Files and frames to logs."""
