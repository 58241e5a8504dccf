"""What a run file is drafted from: guessed columns, the reward's range, and a horizon that the log can bear."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from backcast._files import atomic_write, check_writable
from backcast._serialization import to_json
from backcast.cli.output import print_json
from backcast.errors import OptionError, printable
from backcast.io._column_guesses import ROWS, Guess, Guesses, Profile, Sample, guess_columns, take_sample
from backcast.io.vw import looks_like_vw, sample_vw
from backcast.report._format import format_number

VW_KINDS = ("vw", "dsjson", "cb", "adf")


SHORTEST, LONGEST = 10, 1000


SPARE = 4  # the rarest action should come up so many times more often than a run needs it


@dataclass(frozen=True)
class Draft:
    """What was seen and guessed.

    ``reward_seen`` are the smallest and largest reward of the sample; ``reward_range`` the same where they are all
    there can be (0 and 1, or -1 and 1). ``events`` may be an estimate; None where it cannot be told.
    """

    format: str
    events: int | None
    n_actions: int
    parts: dict[str, Guess] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()
    reward_seen: tuple[float, float] | None = None
    reward_range: tuple[float, float] | None = None
    horizon: int | None = None
    labels: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What the log is, in a line."""
        events = "" if self.events is None else f"about {format_number(self.events)} events, "
        reward = (
            "" if self.reward_seen is None else f", rewards from {self.reward_seen[0]:g} to {self.reward_seen[1]:g}"
        )
        return f"{self.format}: {events}{self.n_actions} actions{reward}"

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        plain: dict[str, Any] = to_json(self)
        return plain


def draft_of(log: str, file_format: str | None) -> Draft:
    """Look at a log and guess."""
    if file_format in VW_KINDS or (file_format is None and looks_like_vw(log)):
        return _draft_of_vw(log, file_format)
    sample = take_sample(log, file_format)
    guesses = guess_columns(sample)
    rewards = _profile(sample, guesses.column("reward"))
    propensities = _profile(sample, guesses.column("propensity"))
    seen, known = _range(np.zeros(0) if rewards is None else rewards.numbers)
    smallest = _smallest(np.zeros(0) if propensities is None else propensities.numbers, guesses.n_actions)
    return Draft(
        sample.format,
        sample.total,
        guesses.n_actions,
        guesses.roles,
        guesses.left_out,
        tuple(guesses.doubts),
        seen,
        known,
        _horizon(sample.total, smallest),
        _labels(sample, guesses),
    )


def _draft_of_vw(log: str, kind: str | None) -> Draft:
    kind, events = sample_vw(log, ROWS, None if kind == "vw" else kind)
    doubts = () if events else ("no decision with action, cost and probability is among the first lines",)
    seen, known = _range(-np.array([event.cost for event in events]) + 0.0)
    n_actions = max((event.n_actions for event in events), default=0)
    smallest = _smallest(np.array([event.probability for event in events]), n_actions)
    total = len(events) if len(events) < ROWS else None
    return Draft(kind, total, n_actions, {}, {}, doubts, seen, known, _horizon(len(events), smallest))


def _profile(sample: Sample, name: str | None) -> Profile | None:
    return next((column for column in sample.columns if column.name == name), None)


def _range(rewards: Any) -> tuple[tuple[float, float] | None, tuple[float, float] | None]:
    """The rewards' ends as seen, and as known where the values speak for themselves."""
    if rewards.size == 0:
        return None, None
    low, high = float(rewards.min()), float(rewards.max())
    values = set(np.unique(rewards).tolist())
    known = next((ends for ends in ((0.0, 1.0), (-1.0, 0.0), (-1.0, 1.0)) if values <= set(ends)), None)
    return (low, high), known


def _smallest(propensities: Any, n_actions: int) -> float:
    """The probability of rare actions: few events have one below it."""
    if propensities.size == 0:
        return 1 / max(n_actions, 1)
    return float(np.quantile(propensities, 0.05))


def _horizon(events: int | None, smallest: float) -> int | None:
    """Rounds that a policy can be simulated for, even one that likes what the logger rarely did; None if hardly any."""
    bearable = (ROWS if events is None else events) * smallest / SPARE
    return None if bearable < SHORTEST else min(LONGEST, round_down(bearable))


def round_down(value: float) -> int:
    """The largest of 1, 2, 5, 10, 20, 50, ... that is no larger.

    >>> round_down(160), round_down(49), round_down(10)
    (100, 20, 10)
    """
    unit = 10 ** math.floor(math.log10(value))
    return int(next(step * unit for step in (5, 2, 1) if step * unit <= value))


def _labels(sample: Sample, guesses: Guesses) -> tuple[str, ...]:
    """Labels of the actions seen, sorted, where they are text and columns speak of all actions by position."""
    profile = _profile(sample, guesses.column("action"))
    by_position = {"available", "logging_probabilities"} & set(guesses.roles)
    if profile is None or profile.kind != "text" or not by_position:
        return ()
    return tuple(sorted({str(value) for value in sample.values(profile.name)}))


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
    events = "its" if draft.events is None else f"about {format_number(draft.events)}"
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
    return printable(text)


def write_draft(log: str, out: str, file_format: str | None, *, force: bool, json: bool, quiet: bool) -> None:
    """Look at a log, guess which column plays which part, and write a run file with comments."""
    _check_place(out, force=force)
    draft = draft_of(log, file_format)
    text = run_file(draft, _from(log, out))
    with atomic_write(out, "run file") as file:
        # names may hold bytes that are no text; they are written out
        file.write(text.encode("utf-8", errors="backslashreplace"))
    if json:
        print_json({"run_file": str(Path(out).resolve()), **draft.to_dict()})
    elif not quiet:
        _print_draft(draft, out)


def _check_place(out: str, *, force: bool) -> None:
    if not out.lower().endswith(".toml"):
        raise OptionError(f"the run file is {out!r}; its name must end in .toml, so that commands know it from a log")
    check_writable(out, "run file")
    if os.path.exists(out) and not force:
        raise OptionError(f"{out} is there already; give --force to overwrite it, or --out another.toml")


def _from(log: str, out: str) -> str:
    """The log's path as the run file sees it."""
    if "://" in log or os.path.isabs(log):
        return log
    return Path(os.path.relpath(log, os.path.dirname(out) or ".")).as_posix()


def _print_draft(draft: Draft, out: str) -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=False)
    console.print(printable(draft.title), markup=False)
    if draft.parts:
        console.print(_table(draft))
    for doubt in draft.doubts:
        console.print(printable(f"Unsure: {doubt}."), markup=False)
    console.print(
        printable(f"{out} is written. Look it over, then: backcast check {out}; backcast compare {out}"), markup=False
    )


def _table(draft: Draft) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for title in ("part", "column", "because"):
        table.add_column(title, overflow="fold")
    for part, guess in draft.parts.items():
        columns = ", ".join(guess.columns) or "(none)"
        table.add_row(part.replace("_", " "), Text(printable(columns)), guess.why + ("" if guess.sure else " (unsure)"))
    for name, why in draft.left_out.items():
        table.add_row("left out", Text(printable(name)), why)
    return table
