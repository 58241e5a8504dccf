"""The parsers as functions of bytes: each must end in a result or in one of backcast's errors."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from backcast.errors import BackcastError

FOLDER = Path(tempfile.gettempdir(), f"backcast-fuzz-{os.getpid()}")

CB = b"1:0.5:0.25 |user age:2 new |:0.5 x\n2:-1:0.75 'tag | age:3\n1:0:0.5 2 3 | a b:0.5\n"
ADF = b"shared |u a:1 b\n0:1:0.5 | c:2\n| d\n\n| e\n0:-1:0.25 |v f:3\n"
DSJSON = (
    b'{"_label_cost":-1,"_label_probability":0.5,"_label_Action":1,"_labelIndex":0,"a":[1,2],"p":[0.5,0.5],'
    b'"Timestamp":"t","c":{"u":{"age":3,"city":"Rome"},"_multi":[{"x":1},{"x":[0.5,"b"],"_text":"w w"}]}}\n'
)
RUN_FILE = (
    b'log = "log.csv"\ncontext = ["x*"]\naction = "a"\nreward = "r"\npropensity = 0.5\nhorizon = 100\n'
    b'reward_range = [0.0, 1.0]\n[policies]\neven = "uniform"\nl = { kind = "linucb", alpha = 0.3 }\n'
)


def fuzz_vw_text(data: bytes) -> None:
    """Read Vowpal Wabbit's text formats: a line per decision, or a line per action."""
    _read_vw(data, "log.vw")


def fuzz_vw_json(data: bytes) -> None:
    """Read decisions as JSON."""
    _read_vw(data, "log.dsjson")


def _read_vw(data: bytes, name: str) -> None:
    from backcast.io.vw import read_vw

    _expect_result_or_error(lambda: read_vw(_write_input(name, data), hash_size=8))


def fuzz_run_file(data: bytes) -> None:
    """Read the settings of a run."""
    from backcast.cli.settings import read_run_file

    _expect_result_or_error(lambda: read_run_file(str(_write_input("run.toml", data))))


def fuzz_spec(data: bytes) -> None:
    """Build policies, evaluators and intervals from words, except those that would import a module."""
    from backcast.cli.objects import EVALUATORS, INTERVALS, POLICIES, build
    from backcast.cli.run import make_replicates

    text = data.decode("utf-8", errors="replace")
    for registry in (POLICIES, EVALUATORS, INTERVALS):
        name, _, arguments = text.partition(":")
        built_in = name.strip().lower().replace("_", "-") in registry.names
        if built_in or not arguments.partition(":")[0].strip().isidentifier():
            _expect_result_or_error(lambda registry=registry: build(text, registry))  # type: ignore[misc]
    _expect_result_or_error(lambda: make_replicates(text, "auto"))


def fuzz_saved(data: bytes) -> None:
    """Read a saved result."""
    from backcast.results import load_result

    _expect_result_or_error(lambda: load_result(_write_input("result.json", data)))


def fuzz_nesting(data: bytes) -> None:
    """Check the depth of JSON; it must be at least what Python's parser finds."""
    import io

    from backcast.errors import LogError
    from backcast.io.limits import MOST_DEPTH, check_depth

    try:
        check_depth(io.BytesIO(data))
    except LogError:
        return
    for line in data.split(b"\n"):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        assert _depth(value) <= MOST_DEPTH


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(_depth, inner), default=0)


def _write_input(name: str, data: bytes) -> Path:
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / name
    path.write_bytes(data)
    return path


def _expect_result_or_error(read: Callable[[], object]) -> None:
    """Call the parser; the message of a backcast error must be short and printable."""
    try:
        read()
    except BackcastError as error:
        message = str(error)
        assert message
        assert len(message) < 5_000
        assert message.replace("\n", "").isprintable()


def _saved_result() -> bytes:
    import backcast as bc

    log = bc.Log(None, actions=[0, 1] * 8, rewards=[1, 0] * 8, propensities=[0.5] * 16)
    FOLDER.mkdir(exist_ok=True)
    return bc.save_result(bc.evaluate(log, bc.Uniform(), bc.IPS()), FOLDER / "seed.json").read_bytes()


SPECS = [
    b"linucb:alpha=0.3",
    b"fixed:probabilities=[0.5,0.5]",
    b"dr-ns:q=0.01,c_max=1",
    b"bootstrap",
    b"epsilon-greedy:",
]

# each target with valid inputs to start from
TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], list[bytes]]]] = {
    "vw-text": (fuzz_vw_text, lambda: [CB, ADF]),
    "vw-json": (fuzz_vw_json, lambda: [DSJSON]),
    "run-file": (fuzz_run_file, lambda: [RUN_FILE]),
    "spec": (fuzz_spec, lambda: SPECS),
    "saved": (fuzz_saved, lambda: [_saved_result()]),
    "nesting": (fuzz_nesting, lambda: [DSJSON, b'{"a":[[["\\\\\\"]"]]]}\n']),
}
