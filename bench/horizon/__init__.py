"""Long horizons: time to answer of the default call, and errors where the log is exhausted."""
