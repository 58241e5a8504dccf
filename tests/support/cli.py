"""Running commands, and the small logs they run on."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
from jsonschema import Draft202012Validator

from backcast.cli import main

SCHEMA_FILE = Path(__file__).parents[2] / "src" / "backcast" / "cli" / "output.schema.json"
OUTPUT_SCHEMA = Draft202012Validator(json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))
GOLDEN = Path(__file__).parents[1] / "golden" / "cli"

# Eight events, even odds: mail earned 1, 0, 1, 0 and none 1, 1, 1, 0. By hand, the inverse propensity score of
# (1/4, 3/4) is (2 * 1/2 + 3 * 3/2) / 8 = 0.6875, and that of the uniform policy 5/8.
EIGHT_EVENTS = """hour,shown,click,p
1,mail,1,0.5
2,none,1,0.5
3,mail,0,0.5
4,none,1,0.5
5,mail,1,0.5
6,none,1,0.5
7,mail,0,0.5
8,none,0,0.5
"""
COLUMNS = "--context hour --action shown --reward click --propensity p"
EVALUATE = f"evaluate log.csv {COLUMNS}"
COMPARE = f"compare log.csv {COLUMNS}"
CHECK = f"check log.csv {COLUMNS}"
EVEN_AND_MORE = "--policy even=uniform --policy 'more=fixed:probabilities=[0.25,0.75]' --evaluator ips"

LOG_AND_COLUMNS = "log.csv --action shown --reward click --propensity p"  # of write_click_log
EVEN_OR_MORE = f"{LOG_AND_COLUMNS} --policy a=uniform --policy 'b=fixed:probabilities=[0.25,0.75]' --evaluator ips"


def run(words: str) -> int:
    return main(shlex.split(words))


def run_process(words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "backcast.cli", *shlex.split(words)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **environment}
    )


def tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()) + "\n"


def golden(name: str) -> str:
    return (GOLDEN / name).read_text(encoding="utf-8")


def write_even_log(path: Path, events: int = 400, *, drifting: bool = False) -> None:
    """Even odds between two actions; the second earns 3/4 and the first 1/4, or more and more if drifting."""
    rng = np.random.default_rng(0)
    actions = rng.integers(2, size=events)
    chance = np.linspace(0, 1, events) if drifting else np.where(actions == 1, 0.75, 0.25)
    rewards = (rng.random(events) < chance).astype(int)
    rows = (f"{rng.random():.6f},{'ab'[action]},{reward},0.5" for action, reward in zip(actions, rewards, strict=True))
    path.write_text("\n".join(["hour,shown,click,p", *rows]) + "\n")


def write_click_log(path: Path) -> None:
    """Write a log of 400 events: two actions at even odds that pay 1 in 4 and 3 in 4 times."""
    rows = [f"{'ab'[k % 2]},{int((k // 2) % 4 < (1, 3)[k % 2])},0.5" for k in range(400)]
    path.write_text("\n".join(["shown,click,p", *rows]) + "\n")
