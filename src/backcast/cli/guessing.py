"""What a run file is drafted from: guessed columns, the reward's range, and a horizon that the log can bear."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from backcast.plain import to_plain
from backcast.report.words import figure
from backcast.sources.guess import Guess, Guesses, guess_columns
from backcast.sources.sample import ROWS, Profile, Sample, take_sample
from backcast.sources.vw import looks_like_vw, sample_vw

__all__ = ["Draft", "draft_of", "round_down"]

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
        events = "" if self.events is None else f"about {figure(self.events)} events, "
        reward = (
            "" if self.reward_seen is None else f", rewards from {self.reward_seen[0]:g} to {self.reward_seen[1]:g}"
        )
        return f"{self.format}: {events}{self.n_actions} actions{reward}"

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        plain: dict[str, Any] = to_plain(self)
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
        guesses.parts,
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
    by_position = {"available", "logging_probabilities"} & set(guesses.parts)
    if profile is None or profile.kind != "text" or not by_position:
        return ()
    return tuple(sorted({str(value) for value in sample.values(profile.name)}))
