"""What is parsed by hand, as functions of bytes: each ends in a result or in an error of ours, whatever they are."""

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
REPLAY_RECORD = (
    b'log = "log.csv"\ncontext = ["x*"]\naction = "a"\nreward = "r"\npropensity = 0.5\nhorizon = 100\n'
    b'reward_range = [0.0, 1.0]\n[policies]\neven = "uniform"\nl = { kind = "linucb", alpha = 0.3 }\n'
)


def vw_text(data: bytes) -> None:
    """A line a decision, or a line an action."""
    _read_vw(data, "log.vw")


def vw_json(data: bytes) -> None:
    """Decisions as JSON."""
    _read_vw(data, "log.dsjson")


def _read_vw(data: bytes, name: str) -> None:
    from backcast.io.vw import read_vw

    _ours(lambda: read_vw(_file(name, data), hash_size=8))


def run_file(data: bytes) -> None:
    """The settings of a run."""
    from backcast.cli.settings import read_run_file

    _ours(lambda: read_run_file(str(_file("run.toml", data))))


def spec(data: bytes) -> None:
    """Policies, evaluators and intervals in words; none that would import a module."""
    from backcast.cli.objects import EVALUATORS, INTERVALS, POLICIES, build
    from backcast.cli.run import make_replicates

    text = data.decode("utf-8", errors="replace")
    for registry in (POLICIES, EVALUATORS, INTERVALS):
        head, _, rest = text.partition(":")
        built_in = head.strip().lower().replace("_", "-") in registry.names
        if built_in or not rest.partition(":")[0].strip().isidentifier():
            _ours(lambda registry=registry: build(text, registry))  # type: ignore[misc]
    _ours(lambda: make_replicates(text, "auto"))


def saved(data: bytes) -> None:
    """A saved result."""
    from backcast.results import load_result

    _ours(lambda: load_result(_file("result.json", data)))


def nesting(data: bytes) -> None:
    """The depth of JSON, which must be at least what Python's own parser finds."""
    import io

    from backcast.errors import LogError
    from backcast.io.limits import MOST_DEPTH, check_depth

    try:
        check_depth(io.BytesIO(data))
    except LogError:
        return
    for line in data.split(b"\n"):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        assert _depth(found) <= MOST_DEPTH


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(_depth, inner), default=0)


def _file(name: str, data: bytes) -> Path:
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / name
    path.write_bytes(data)
    return path


def _ours(read: Callable[[], object]) -> None:
    """An error of ours is an answer; its words must be short and printable."""
    try:
        read()
    except BackcastError as error:
        words = str(error)
        assert words
        assert len(words) < 5_000
        assert words.replace("\n", "").isprintable()


def _result() -> bytes:
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

# each target with whole inputs to start from
TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], list[bytes]]]] = {
    "vw-text": (vw_text, lambda: [CB, ADF]),
    "vw-json": (vw_json, lambda: [DSJSON]),
    "run-file": (run_file, lambda: [REPLAY_RECORD]),
    "spec": (spec, lambda: SPECS),
    "saved": (saved, lambda: [_result()]),
    "nesting": (nesting, lambda: [DSJSON, b'{"a":[[["\\\\\\"]"]]]}\n']),
}
