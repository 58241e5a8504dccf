"""Fuzz one target with atheris: ``python -m bench.fuzz.run TARGET SECONDS FOLDER``; failing inputs stay there."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import atheris

from bench.fuzz.targets import TARGETS

# modules with compiled code are imported first: the fuzzer's instrumentation would be compiled with them
COMPILED = ("backcast.comparison", "backcast.evaluators.clock_replay", "backcast.report.text", "backcast.checks")
PARSERS = (
    *("backcast._files", "backcast._serialization", "backcast.io.limits", "backcast.io.vw"),
    *("backcast.cli.objects", "backcast.cli.settings", "backcast.cli.run", "backcast.results"),
)
LONGEST = 4096  # bytes of an input


def import_instrumented() -> None:
    """Import the parsers so that the fuzzer records which of their lines are run."""
    for name in COMPILED:
        importlib.import_module(name)
    for name in PARSERS:
        sys.modules.pop(name, None)
    with atheris.instrument_imports(include=["backcast"]):
        for name in PARSERS:
            importlib.import_module(name)


def main() -> None:
    import_instrumented()
    name, seconds, folder = sys.argv[1:4]
    target, seeds = TARGETS[name]
    corpus = Path(folder, name)
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
        target(seed)  # late imports must not count as a slow input
    options = [f"-max_total_time={seconds}", f"-max_len={LONGEST}", f"-artifact_prefix={folder}/{name}-"]
    # an input that takes ten seconds or two gigabytes is a finding
    options += ["-timeout=10", "-rss_limit_mb=2048", "-verbosity=0", "-print_final_stats=1", str(corpus)]
    atheris.Setup([sys.argv[0], *options], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
