"""The logger of the package; it is silent unless the program configures logging."""

from __future__ import annotations

import logging

# INFO: the chosen evaluator, forecasts, jobs that are run again; DEBUG: each finished job, and tracebacks of policies
logger = logging.getLogger("backcast")
logger.addHandler(logging.NullHandler())
