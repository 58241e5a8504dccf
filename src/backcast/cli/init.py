"""backcast init: guess the columns of a log and a horizon, and write a run file with comments."""

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
from backcast.cli.output import open_console, print_json, print_line
from backcast.cli.run import VW_FORMATS
from backcast.errors import OptionError, printable
from backcast.io._column_guesses import ROWS, Guess, Guesses, Profile, Sample, guess_columns, take_sample
from backcast.io.vw import looks_like_vw, sample_vw
from backcast.report._format import format_number
from backcast.report.text import FOLD, make_table

SHORTEST_HORIZON, LONGEST_HORIZON = 10, 1000
SPARE_EVENTS = 4  # events with a rare action in the log, per event with it that a run needs
PATTERN_COLUMNS = 4  # columns with a common prefix from which they are written as a pattern


@dataclass(frozen=True)
class Draft:
    """Guesses about a log.

    ``reward_seen`` are the smallest and largest reward of the sample; ``reward_range`` are known bounds, if the values
    show them (0 and 1, or -1 and 1). ``events`` may be an estimate; None if it is unknown.
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
        """Format, size and rewards of the log in one line."""
        events = "" if self.events is None else f"about {format_number(self.events)} events, "
        seen = self.reward_seen
        rewards = "" if seen is None else f", rewards from {seen[0]:g} to {seen[1]:g}"
        return f"{self.format}: {events}{self.n_actions} actions{rewards}"


def write_run_file(log: str, out: str, file_format: str | None, *, force: bool, json: bool, quiet: bool) -> None:
    """Guess the role of each column of a log, write a run file with comments, and print the guesses."""
    if not out.lower().endswith(".toml"):
        raise OptionError(f"the run file is {out!r}; its name must end in .toml, which distinguishes it from a log")
    check_writable(out, "run file")
    if os.path.exists(out) and not force:
        raise OptionError(f"{out} exists already; give --force to overwrite it, or --out another.toml")
    draft = draft_log(log, file_format)
    path = log
    if "://" not in log and not os.path.isabs(log):
        path = Path(os.path.relpath(log, os.path.dirname(out) or ".")).as_posix()
    with atomic_write(out, "run file") as file:
        # names of columns may contain bytes that are not text; they are escaped
        file.write(render_run_file(draft, path).encode("utf-8", errors="backslashreplace"))
    if json:
        print_json({"run_file": str(Path(out).resolve()), **to_json(draft)})
    elif not quiet:
        _print_draft(draft, out)


def draft_log(log: str, file_format: str | None) -> Draft:
    """Read the first events of a log, and guess."""
    if file_format in VW_FORMATS or (file_format is None and looks_like_vw(log)):
        return _draft_vw_log(log, file_format)
    sample = take_sample(log, file_format)
    guesses = guess_columns(sample)
    rewards, propensities = (_column_numbers(sample, guesses.column(part)) for part in ("reward", "propensity"))
    seen, known = _reward_bounds(rewards)
    return Draft(
        sample.format,
        sample.total,
        guesses.n_actions,
        guesses.roles,
        guesses.left_out,
        tuple(guesses.doubts),
        seen,
        known,
        _feasible_horizon(sample.total, propensities, guesses.n_actions),
        _action_labels(sample, guesses),
    )


def _draft_vw_log(log: str, file_format: str | None) -> Draft:
    kind, events = sample_vw(log, ROWS, None if file_format == "vw" else file_format)
    doubts = () if events else ("the first lines contain no decision with action, cost and probability",)
    seen, known = _reward_bounds(-np.array([event.cost for event in events]) + 0.0)
    n_actions = max((event.n_actions for event in events), default=0)
    horizon = _feasible_horizon(len(events), np.array([event.probability for event in events]), n_actions)
    total = len(events) if len(events) < ROWS else None
    return Draft(kind, total, n_actions, doubts=doubts, reward_seen=seen, reward_range=known, horizon=horizon)


def _find_profile(sample: Sample, name: str | None) -> Profile | None:
    return next((column for column in sample.columns if column.name == name), None)


def _column_numbers(sample: Sample, name: str | None) -> Any:
    profile = _find_profile(sample, name)
    return np.zeros(0) if profile is None else profile.numbers


def _reward_bounds(rewards: Any) -> tuple[tuple[float, float] | None, tuple[float, float] | None]:
    """Return the smallest and largest reward, and the known bounds if the values show them."""
    if rewards.size == 0:
        return None, None
    values = set(np.unique(rewards).tolist())
    known = next((bounds for bounds in ((0.0, 1.0), (-1.0, 0.0), (-1.0, 1.0)) if values <= set(bounds)), None)
    return (float(rewards.min()), float(rewards.max())), known


def _feasible_horizon(events: int | None, propensities: Any, n_actions: int) -> int | None:
    """Return rounds that can be simulated even for a policy that prefers rare actions; None if there are too few."""
    rare = float(np.quantile(propensities, 0.05)) if propensities.size else 1 / max(n_actions, 1)
    rounds = (ROWS if events is None else events) * rare / SPARE_EVENTS
    return None if rounds < SHORTEST_HORIZON else min(LONGEST_HORIZON, round_down(rounds))


def round_down(value: float) -> int:
    """Return the largest of 1, 2, 5, 10, 20, 50, ... that does not exceed the value.

    >>> round_down(160), round_down(49), round_down(10)
    (100, 20, 10)
    """
    unit = 10 ** math.floor(math.log10(value))
    return int(next(step * unit for step in (5, 2, 1) if step * unit <= value))


def _action_labels(sample: Sample, guesses: Guesses) -> tuple[str, ...]:
    """Return the sorted labels of the actions if they are text and other columns refer to actions by position."""
    profile = _find_profile(sample, guesses.column("action"))
    by_position = {"available", "logging_probabilities"} & set(guesses.roles)
    if profile is None or profile.kind != "text" or not by_position:
        return ()
    return tuple(sorted({str(value) for value in sample.values(profile.name)}))


def render_run_file(draft: Draft, log: str) -> str:
    """Return the text of the run file, with the path of the log as the file needs it."""
    head = [
        "# A run file of backcast. Every key is also a flag, which overrides it; paths start from this file's folder.",
        "#   backcast check run.toml       does the log have faults?",
        "#   backcast compare run.toml     which policy earns more?",
        "# All keys: the page cli.md of the manual, or --help of any command.",
        "",
        f"# {printable(draft.title)}",
        f"log = {toml_value(log)}",
        *([] if draft.parts else [f"format = {toml_value(draft.format)}"]),
    ]
    blocks = [head, _column_lines(draft), _reward_lines(draft), _run_lines(draft), _policy_lines(draft)]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _column_lines(draft: Draft) -> list[str]:
    if not draft.parts:
        return ["# A log of Vowpal Wabbit has no columns to name. Rewards are the costs with the opposite sign."]
    lines = ["# The role of each column. A wrong guess makes every result wrong: check them."]
    for part in ("context", "action", "reward", "propensity"):
        lines += _part_lines(draft, part)
    for part in ("times", "available", "logging_probabilities"):
        if part in draft.parts:
            lines += _part_lines(draft, part)
    if draft.labels:
        lines.append("# Sorted here; put them in the order of those columns.")
        lines.append(f"action_labels = {toml_value(list(draft.labels))}")
    lines += [f"# Left out: {printable(name)} ({printable(reason)})." for name, reason in draft.left_out.items()]
    return lines + [f"# Unsure: {printable(doubt)}." for doubt in draft.doubts]


def _part_lines(draft: Draft, part: str) -> list[str]:
    guess = draft.parts.get(part)
    if guess is None and part == "propensity":
        comment = "# No column looks like the propensity. Name it here if there is one; until then it is estimated."
        return [comment, '# propensity = "..."', "estimate_propensities = true"]
    if guess is None:
        return [f"# No column looks like the {part}: name it.", f'# {part} = "..."']
    columns = as_patterns(guess.columns, draft) if part == "context" else list(guess.columns)
    value: Any = columns if part in ("context", "available", "logging_probabilities") else columns[0]
    comment = f"  # {printable(guess.why)}{'' if guess.sure else '; unsure'}"
    return [f"{part} = {toml_value(value)}{'' if part == 'context' and guess.sure else comment}"]


def as_patterns(columns: Sequence[str], draft: Draft) -> list[str]:
    """Return names of columns, those with a common prefix as one pattern if it matches no other column."""
    others = [name for part, guess in draft.parts.items() if part != "context" for name in guess.columns]
    others += list(draft.left_out)
    patterns: dict[str, None] = {}
    for name in columns:
        match = re.match(r".*?_|.*?(?=\d+$)", name)
        prefix = match[0] if match else ""
        pattern = f"{prefix}*"
        # a prefix that contains wildcards would match other names
        usable = prefix and not re.search(r"[\[\]?*]", prefix)
        matches = [other for other in columns if fnmatchcase(other, pattern)]
        as_pattern = (
            usable and len(matches) >= PATTERN_COLUMNS and not any(fnmatchcase(other, pattern) for other in others)
        )
        patterns[pattern if as_pattern else name] = None
    return list(patterns)


def _reward_lines(draft: Draft) -> list[str]:
    if draft.reward_seen is None:
        return []
    if draft.reward_range is not None:
        return [
            "# Known bounds of the reward, which intervals use.",
            f"reward_range = {toml_value(draft.reward_range)}",
        ]
    low, high = draft.reward_seen
    return [
        f"# The sample has rewards from {low:g} to {high:g}. If you know bounds that always hold, set them here.",
        f"# reward_range = {toml_value(draft.reward_seen)}",
    ]


def _run_lines(draft: Draft) -> list[str]:
    lines = ["# Rounds that each policy runs for; the value of a learning policy depends on how long it learns."]
    if draft.horizon is None:
        lines.append("# The log is short for any horizon; without one, the log is processed once.")
        lines.append("# horizon = 10")
    else:
        events = "the" if draft.events is None else f"about {format_number(draft.events)}"
        lines.append(f"horizon = {draft.horizon}  # feasible with {events} events, given how rare some actions are")
    return [
        *lines,
        "# Whether the order of the log carries no information, as with a logger that does not learn. If not set, the",
        "# log is tested for drift.",
        "# exchangeable = true",
        "seed = 0",
        "# jobs = 2  # replicates in parallel; the result does not depend on it",
        'report = "report.html"',
        'save_json = "result.json"  # backcast report makes the report again from this file',
    ]


def _policy_lines(draft: Draft) -> list[str]:
    has_context = "context" not in draft.parts or draft.parts["context"].columns
    learner = "linucb:alpha=0.3,batch_size=10" if has_context else "ucb1"
    return [
        "# By name. Built in: uniform, fixed, logged, epsilon-greedy, softmax, linucb, thompson, ucb1, round-robin;",
        '# your own: "module:factory", a function or class in a module beside this file.',
        "[policies]",
        'even = "uniform"',
        f"learner = {toml_value(learner)}",
    ]


def toml_value(value: Any) -> str:
    r"""Return a text, number or list in TOML.

    >>> print(toml_value(["a", 'b"\n', 0.5]), toml_value((0.0, 1.0)))
    ["a", "b\"\n", 0.5] [0.0, 1.0]
    """
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    # TOML writes text as JSON does, except for one character
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _print_draft(draft: Draft, out: str) -> None:
    from rich.text import Text

    console = open_console()
    print_line(console, draft.title)
    if draft.parts:
        table = make_table({"role": FOLD, "column": FOLD, "reason": FOLD})
        for part, guess in draft.parts.items():
            columns, doubt = ", ".join(guess.columns) or "(none)", "" if guess.sure else " (unsure)"
            table.add_row(part.replace("_", " "), Text(printable(columns)), f"{guess.why}{doubt}")
        for name, reason in draft.left_out.items():
            table.add_row("left out", Text(printable(name)), reason)
        console.print(table)
    for doubt in draft.doubts:
        print_line(console, f"Unsure: {doubt}.")
    print_line(console, f"{out} is written. Check it, then run: backcast check {out}; backcast compare {out}")
