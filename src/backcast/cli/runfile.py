"""A run file as text: settings with comments for whoever fills in the rest."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from backcast.cli.guessing import Draft
from backcast.report.text import one_line
from backcast.report.words import figure

__all__ = ["as_patterns", "run_file", "toml_value"]

MANY = 4  # columns of one prefix that are better said as a pattern


def run_file(draft: Draft, log: str) -> str:
    """The run file for a draft, with the log's path as the file shall have it."""
    blocks = [_head(draft, log), _columns(draft), _rewards(draft), _questions(draft), _policies(draft)]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _head(draft: Draft, log: str) -> list[str]:
    return [
        "# A run file of backcast. Every key is also a flag, which overrides it; paths start from this file's folder.",
        "#   backcast check run.toml       is anything wrong with the log?",
        "#   backcast compare run.toml     which policy earns more?",
        "# All keys: the page cli.md of the manual, or --help of any command.",
        "",
        f"# {_comment(draft.title)}",
        f"log = {toml_value(log)}",
        *([f"format = {toml_value(draft.format)}"] if not draft.parts else []),
    ]


def _columns(draft: Draft) -> list[str]:
    if not draft.parts:
        return [
            "# Columns need no names: a log of Vowpal Wabbit says what is what. Rewards are the costs, sign turned."
        ]
    lines = ["# Which column plays which part. Wrong guesses are the worst that can happen here: look them over."]
    for part in ("context", "action", "reward", "propensity"):
        lines += _part(draft, part)
    lines += [line for part in ("times",) if part in draft.parts for line in _part(draft, part)]
    for part in ("available", "logging_probabilities"):
        if part in draft.parts:
            lines += _part(draft, part)
    if draft.labels:
        lines.append("# In the order of those columns, which only you know; sorted here.")
        lines.append(f"action_labels = {toml_value(list(draft.labels))}")
    lines += [f"# Left out: {_comment(name)} ({_comment(why)})." for name, why in draft.left_out.items()]
    return lines + [f"# Unsure: {_comment(doubt)}." for doubt in draft.doubts]


def _part(draft: Draft, part: str) -> list[str]:
    guess = draft.parts.get(part)
    if guess is None:
        missing = "# No column looks like the propensity. Name it here if there is one; until then it is estimated."
        if part == "propensity":
            return [missing, '# propensity = "..."', "estimate_propensities = true"]
        return [f"# No column looks like the {part}: name it.", f'# {part} = "..."']
    columns = as_patterns(guess.columns, draft) if part == "context" else list(guess.columns)
    value: Any = columns if part in ("context", "available", "logging_probabilities") else columns[0]
    reason = "" if part == "context" and guess.sure else f"  # {_comment(guess.why)}{'' if guess.sure else '; unsure'}"
    return [f"{part} = {toml_value(value)}{reason}"]


def as_patterns(columns: Sequence[str], draft: Draft) -> list[str]:
    """Names of columns, those of one prefix as a pattern where it means the same."""
    others = [name for part, guess in draft.parts.items() if part != "context" for name in guess.columns]
    others += list(draft.left_out)
    found: dict[str, None] = {}
    for name in columns:
        prefix = re.match(r".*?_|.*?(?=\d+$)", name)
        pattern = f"{prefix[0]}*" if prefix and prefix[0] else ""
        alike = [other for other in columns if pattern and fnmatchcase(other, pattern)]
        fits = len(alike) >= MANY and not any(fnmatchcase(other, pattern) for other in others)
        # a name with signs of a pattern in it would match something else
        found[pattern if fits and not re.search(r"[\[\]?*]", prefix[0] if prefix else "") else name] = None
    return list(found)


def _rewards(draft: Draft) -> list[str]:
    if draft.reward_seen is None:
        return []
    if draft.reward_range is not None:
        return [
            "# Known bounds of the reward: intervals lean on them.",
            f"reward_range = {toml_value(draft.reward_range)}",
        ]
    low, high = draft.reward_seen
    return [
        f"# Rewards from {low:g} to {high:g} were seen. If you know bounds that always hold, give them: it helps.",
        f"# reward_range = {toml_value(draft.reward_seen)}",
    ]


def _questions(draft: Draft) -> list[str]:
    lines = ["# Rounds that each policy would run for: what it earns while it learns depends on how long it may learn."]
    if draft.horizon is None:
        lines.append("# The log is short for any; without one, the log is gone through once.")
        lines.append("# horizon = 10")
    else:
        lines.append(f"horizon = {draft.horizon}  # {_bearable(draft)}")
    return [
        *lines,
        "# Does the order of the log mean nothing, as if the logger did not learn? If not said, drift is looked for.",
        "# exchangeable = true",
        "seed = 0",
        "# jobs = 2  # replicates at once; the answer does not depend on it",
        'report = "report.html"',
        'out = "result.json"  # backcast report makes the page again from this',
    ]


def _bearable(draft: Draft) -> str:
    events = "its" if draft.events is None else f"about {figure(draft.events)}"
    return f"what {events} events bear with ease, by how rare their rarest actions are"


def _policies(draft: Draft) -> list[str]:
    learner = (
        "linucb:alpha=0.3,batch_size=10" if "context" not in draft.parts or draft.parts["context"].columns else "ucb1"
    )
    return [
        "# By name. Built in: uniform, fixed, logged, epsilon-greedy, softmax, linucb, thompson, ucb1, round-robin;",
        '# your own: "module:factory", a function or class in a module beside this file.',
        "[policies]",
        'even = "uniform"',
        f"learner = {toml_value(learner)}",
    ]


def toml_value(value: Any) -> str:
    r"""A text, number or list as TOML writes it.

    >>> print(toml_value(["a", 'b"\n', 0.5]), toml_value((0.0, 1.0)))
    ["a", "b\"\n", 0.5] [0.0, 1.0]
    """
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    # JSON's texts are TOML's, but for one sign
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _comment(text: str) -> str:
    return one_line(text)
