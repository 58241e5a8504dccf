"""Run the command line with ``python -m backcast.cli``."""

from __future__ import annotations

import sys

from backcast.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
