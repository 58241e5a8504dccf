"""backcast init: guess the columns of a log and a horizon, and write a run file with comments."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from backcast._files import atomic_write, check_writable
from backcast._format import format_number
from backcast._horizon import EventRate, seconds_between
from backcast._horizon_proposal import propose_horizon
from backcast._serialization import to_json
from backcast._time_order import to_time_column
from backcast.checks._rewards import find_predictors
from backcast.cli.output import open_console, print_json, print_line
from backcast.cli.paths import check_outputs
from backcast.cli.run import VW_FORMATS
from backcast.errors import LogError, OptionError, SourceError, printable
from backcast.io._column_guesses import ROWS, Guess, Guesses, Sample, guess_columns, take_sample
from backcast.io._vw_files import looks_like_vw
from backcast.io.vw import sample_vw
from backcast.report.text import FOLD, make_table

PATTERN_COLUMNS = 4  # columns with a common prefix from which they are written as a pattern


@dataclass(frozen=True)
class Draft:
    """Guesses about a log.

    ``reward_seen`` are the smallest and largest reward of the sample; ``reward_range`` are known bounds, if the values
    show them (0 and 1, or -1 and 1). ``events`` may be an estimate; None if it is unknown. ``reading`` are options that
    the run file needs to read the log: format, delimiter and encoding. ``horizon_reasons`` explain the horizon.
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
    reading: dict[str, str] = field(default_factory=dict)
    horizon_reasons: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Format, size and rewards of the log in one line."""
        events = "" if self.events is None else f"about {format_number(self.events)} events, "
        seen = self.reward_seen
        rewards = "" if seen is None else f", rewards from {seen[0]:g} to {seen[1]:g}"
        actions = f"{self.n_actions} actions" if self.n_actions else "no column of actions"
        return f"{self.format}: {events}{actions}{rewards}"


def write_run_file(
    log: str, out: str, reading: Mapping[str, str | None], *, force: bool, json: bool, quiet: bool
) -> None:
    """Guess the role of each column of a log, write a run file with comments, and print the guesses."""
    if not out.lower().endswith(".toml"):
        raise OptionError(f"the run file is {out!r}; its name must end in .toml, which distinguishes it from a log")
    check_outputs({"run file": out}, [log])
    check_writable(out, "run file")
    if os.path.exists(out) and not force:
        raise OptionError(f"{out} exists already; give --force to overwrite it, or --out another.toml")
    draft = draft_log(log, **reading)
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


def draft_log(
    log: str,
    format: str | None = None,  # noqa: A002
    delimiter: str | None = None,
    encoding: str | None = None,
) -> Draft:
    """Read the first events of a log, and guess."""
    if format in VW_FORMATS or (format is None and looks_like_vw(log)):
        return _draft_vw_log(log, format)
    sample = take_sample(log, format, delimiter=delimiter, encoding=encoding)
    given = {"format": format, "delimiter": delimiter, "encoding": encoding}
    guesses = guess_columns(sample)
    profiles = (sample.profile(guesses.column(role)) for role in ("reward", "propensity"))
    rewards, propensities = (np.zeros(0) if profile is None else profile.numbers for profile in profiles)
    propensities = propensities[(propensities > 0) & (propensities <= 1)]
    seen, known = _reward_bounds(rewards)
    _leave_out_outcomes(guesses, sample)
    proposal = propose_horizon(
        ROWS if sample.total is None else sample.total,
        propensities,
        guesses.n_actions,
        len(guesses.roles["context"].columns) if "context" in guesses.roles else 0,
        rate=_find_sample_rate(sample, guesses.column("times")),
    )
    return Draft(
        sample.format,
        sample.total,
        guesses.n_actions,
        guesses.roles,
        guesses.left_out,
        tuple(guesses.doubts),
        seen,
        known,
        proposal.rounds,
        _action_labels(sample, guesses),
        {name: value for name, value in given.items() if value is not None},
        proposal.reasons,
    )


def _find_sample_rate(sample: Sample, name: str | None) -> EventRate | None:
    """Return how many events the sample has in how many seconds; None if its times do not show it."""
    if name is None:
        return None
    try:
        times = to_time_column(sample.values(name))
        seconds = 0.0 if times is None else seconds_between(times.min(), times.max())
    except (LogError, OptionError, TypeError):
        return None
    return EventRate(sample.rows, seconds) if seconds > 0 else None


def _leave_out_outcomes(guesses: Guesses, sample: Sample) -> None:
    """Move columns that predict the reward almost surely from the context to those left out."""
    reward = sample.profile(guesses.column("reward"))
    context = guesses.roles["context"]
    columns = [column for column in sample.columns if column.name in context.columns and column.kind == "number"]
    if reward is None or reward.missing or not columns:
        return
    table = np.column_stack([column.numbers for column in columns])
    leaks = {columns[feature].name for feature in find_predictors(table, reward.numbers).tolist()}
    for name in leaks:
        guesses.left_out[name] = f"it determines {reward.name}: is it an outcome?"
    kept = tuple(name for name in context.columns if name not in leaks)
    guesses.roles["context"] = replace(context, columns=kept, sure=context.sure and bool(kept))


def _draft_vw_log(log: str, file_format: str | None) -> Draft:
    kind, events = sample_vw(log, ROWS, None if file_format == "vw" else file_format)
    if not events:
        raise SourceError(f"{log}: its first lines contain no decision with action, cost and probability")
    seen, known = _reward_bounds(-np.array([event.cost for event in events]) + 0.0)
    n_actions = max((event.n_actions for event in events), default=0)
    # the number of features is not known before all lines are read
    proposal = propose_horizon(len(events), np.array([event.probability for event in events]), n_actions, 1)
    return Draft(
        kind,
        len(events) if len(events) < ROWS else None,
        n_actions,
        reward_seen=seen,
        reward_range=known,
        horizon=proposal.rounds,
        reading={"format": kind},
        horizon_reasons=proposal.reasons,
    )


def _reward_bounds(rewards: Any) -> tuple[tuple[float, float] | None, tuple[float, float] | None]:
    """Return the smallest and largest reward, and the known bounds if the values show them."""
    if rewards.size == 0:
        return None, None
    values = set(np.unique(rewards).tolist())
    known = next((bounds for bounds in ((0.0, 1.0), (-1.0, 0.0), (-1.0, 1.0)) if values <= set(bounds)), None)
    return (float(rewards.min()), float(rewards.max())), known


def _action_labels(sample: Sample, guesses: Guesses) -> tuple[str, ...]:
    """Return the sorted labels of the actions if they are text and other columns refer to actions by position."""
    profile = sample.profile(guesses.column("action"))
    by_position = {"available", "logging_probabilities"} & set(guesses.roles)
    if profile is None or profile.kind != "text" or not by_position:
        return ()
    return tuple(sorted({str(value) for value in sample.values(profile.name)}))


def render_run_file(draft: Draft, log: str) -> str:
    """Return the text of the run file, with the path of the log as the file needs it."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters |= {"toml": toml_value, "printable": printable, "number": format_number}
    template = environment.from_string((files("backcast.cli") / "run.toml.jinja").read_text(encoding="utf-8"))
    context = draft.parts.get("context")
    patterns = as_patterns(context.columns, draft) if context else []
    return template.render(draft=draft, log=log, patterns=patterns, has_context=context is None or patterns)


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
    if draft.horizon is not None:
        print_line(console, f"Horizon: {draft.horizon:,} rounds. {' '.join(draft.horizon_reasons)}")
    print_line(console, f"{out} is written. Check it, then run: backcast check {out}; backcast compare {out}")
