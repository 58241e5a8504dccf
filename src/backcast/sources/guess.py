"""Which column of a log plays which part: a guess from names and values, with the reason for each.

A guess is only a start: whoever reads it corrects it. So it says what it is unsure of rather than choosing in silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from backcast.sources.sample import Profile, Sample

__all__ = ["Guess", "Guesses", "guess_columns"]

# the words that columns of a part are called by, the likeliest first
NAMES: dict[str, tuple[str, ...]] = {
    "propensity": ("propensity", "pscore", "probability", "prob", "p", "propensities", "chance"),
    "reward": (
        *("reward", "click", "clicked", "clicks", "r", "conversion", "converted", "purchase", "purchased", "revenue"),
        *("payoff", "outcome", "profit", "success", "opened", "rating", "utility", "gain", "y", "label", "return"),
    ),
    "action": (
        *("action", "arm", "a", "chosen", "choice", "decision", "shown", "treatment", "variant", "article", "item"),
        *("ad", "banner", "offer", "creative", "model", "product", "recommendation"),
    ),
    "times": ("time", "timestamp", "ts", "date", "datetime"),
    "available": ("available", "eligible", "allowed", "candidates"),
    "logging_probabilities": ("probabilities", "probs", "propensities", "logging", "scores", "pmf"),
}
IDENTIFIERS = ("id", "uuid", "guid", "index", "key", "session", "request")
COSTS = ("cost", "loss", "regret")
MOST_ACTIONS = 1000
MOST_WORDS = 200


@dataclass(frozen=True)
class Guess:
    """The columns that seem to play a part, why, and whether that is sure."""

    columns: tuple[str, ...]
    why: str
    sure: bool = True


@dataclass
class Guesses:
    """What was guessed by part, what was left out and why, and what somebody should look at."""

    parts: dict[str, Guess] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    n_actions: int = 0

    def column(self, part: str) -> str | None:
        """The one column of a part."""
        return self.parts[part].columns[0] if part in self.parts else None

    @property
    def taken(self) -> set[str]:
        """Columns that have a part."""
        return {name for guess in self.parts.values() for name in guess.columns}


def guess_columns(sample: Sample) -> Guesses:
    """Guess the part of every column of a sample."""
    found = Guesses()
    _guess_one(found, sample, "propensity", [c for c in sample.columns if _may_be_propensity(c)])
    _guess_one(found, sample, "action", [c for c in sample.columns if _may_be_action(c, sample.rows)])
    _guess_one(found, sample, "reward", [c for c in sample.columns if c.kind == "number" and not c.missing])
    _guess_times(found, sample)
    _count_actions(found, sample)
    _guess_tables(found, sample)
    _guess_context(found, sample)
    _judge(found, sample)
    return found


def words_of(name: str) -> list[str]:
    """A column's name as words.

    >>> words_of("isClicked_2"), words_of("P")
    (['is', 'clicked', '2'], ['p'])
    """
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return [word for word in re.split(r"[\W_]+", apart.lower()) if word]


def _rank(name: str, part: str) -> float:
    """How well a name suits a part: 0 as well as can be, infinite not at all."""
    words, known = words_of(name), NAMES[part]
    places = [known.index(word) for word in words if word in known]
    return min(places) + 100.0 * (len(words) - 1) if places else float("inf")


def _may_be_propensity(column: Profile) -> bool:
    return column.lies_in(0, 1) and column.low > 0 and not column.missing and not column.is_truth


def _may_be_action(column: Profile, rows: int) -> bool:
    few = 2 <= column.distinct <= min(MOST_ACTIONS, max(2, rows // 2))
    return few and not column.missing and (column.kind == "text" or column.is_truth or column.is_whole)


def _guess_one(found: Guesses, sample: Sample, part: str, fitting: Sequence[Profile]) -> None:
    """The fitting column whose name suits best; the only likely one where no name does."""
    free = [column for column in fitting if column.name not in found.taken]
    named = sorted((column for column in free if _rank(column.name, part) < np.inf), key=lambda c: _rank(c.name, part))
    if named:
        others = [column.name for column in named[1:] if _rank(column.name, part) < 100]
        found.parts[part] = Guess((named[0].name,), "by its name", sure=not others)
        if others:
            found.doubts.append(f"{part}: {named[0].name!r} was taken, but {_listed(others)} may be meant")
        return
    likely = [column for column in free if _is_likely(part, column)]
    if likely:
        found.parts[part] = Guess((likely[0].name,), "by its values alone", sure=False)
        found.doubts.append(f"{part}: no name says it; {likely[0].name!r} was taken by its values")


def _is_likely(part: str, column: Profile) -> bool:
    """Whether values alone suggest a part."""
    if any(word in IDENTIFIERS for word in words_of(column.name)):
        return False
    if part == "propensity":
        return not column.is_whole
    if part == "action":
        return column.kind == "text" or (column.is_whole and column.low in (0, 1) and column.distinct > 2)
    return column.distinct == 2 and column.is_whole


def _guess_times(found: Guesses, sample: Sample) -> None:
    times = [c for c in sample.columns if c.is_time or (c.kind == "number" and _rank(c.name, "times") < 100)]
    free = [column for column in times if column.name not in found.taken and not column.missing]
    if free:
        why = "it holds times" if free[0].is_time else "by its name"
        found.parts["times"] = Guess((free[0].name,), why)


def _count_actions(found: Guesses, sample: Sample) -> None:
    name = found.column("action")
    for column in sample.columns:
        if column.name == name:
            from_zero = column.is_whole and column.low == 0 and not column.is_truth
            found.n_actions = int(column.high) + 1 if from_zero else column.distinct


def _guess_tables(found: Guesses, sample: Sample) -> None:
    """Columns that speak of all actions: probabilities that sum to 1, and which were eligible."""
    for column in sample.columns:
        if column.kind == "list" and not column.missing and column.name not in found.taken:
            part = "logging_probabilities" if _sums_to_one(column.numbers) else "available"
            if part == "logging_probabilities" or _rank(column.name, part) < np.inf:
                found.parts.setdefault(part, Guess((column.name,), "a list for each event"))
    for columns in _series(sample.columns, found.taken):
        names = tuple(column.name for column in columns)
        if len(columns) == found.n_actions and all(column.lies_in(0, 1) for column in columns):
            if _sums_to_one(sum(column.numbers for column in columns)):
                found.parts.setdefault("logging_probabilities", Guess(names, "they sum to 1"))
            elif _rank(names[0], "available") < np.inf and all(column.is_whole for column in columns):
                found.parts.setdefault("available", Guess(names, "by their names"))


def _sums_to_one(sums: object) -> bool:
    values = np.asarray(sums, dtype=np.float64)
    return values.size > 0 and bool((np.abs(values - 1) < 1e-3).all())


def _series(columns: Iterable[Profile], taken: set[str]) -> list[list[Profile]]:
    """Columns whose names differ in their last number only, in its order."""
    groups: dict[str, list[tuple[int, Profile]]] = {}
    for column in columns:
        numbered = re.fullmatch(r"(.*?)(\d+)", column.name)
        if numbered and column.kind == "number" and not column.missing and column.name not in taken:
            groups.setdefault(numbered[1], []).append((int(numbered[2]), column))
    return [[column for _, column in sorted(group, key=lambda one: one[0])] for group in groups.values()]


def _guess_context(found: Guesses, sample: Sample) -> None:
    for column in sample.columns:
        if column.name not in found.taken:
            reason = _why_not_context(column, sample.rows)
            if reason:
                found.left_out[column.name] = reason
    names = tuple(c.name for c in sample.columns if c.name not in found.taken and c.name not in found.left_out)
    found.parts["context"] = Guess(names, "what is left" if names else "no column is left for it", sure=bool(names))


def _why_not_context(column: Profile, rows: int) -> str:
    words = words_of(column.name)
    if column.is_time:
        return "a time; turn it into its hour and weekday to use it"
    if column.kind in ("list", "other", "empty"):
        return "neither numbers nor text"
    if column.missing:
        return f"missing in {column.missing:,} of {rows:,} rows; fill it to use it" if column.kind == "number" else ""
    if column.distinct == 1 and rows > 1:
        return "always the same"
    if any(word in IDENTIFIERS for word in words) and column.distinct > rows / 2:
        return "an identifier by its name"
    if column.kind == "text" and column.distinct > max(MOST_WORDS, rows / 2):
        return f"text of {column.distinct:,} different values"
    counting = column.is_whole and rows > 2 and bool((np.diff(column.numbers) == 1).all())
    return "it counts the rows" if counting else ""


def _judge(found: Guesses, sample: Sample) -> None:
    """What somebody should look at before believing the guesses."""
    for part in ("action", "reward"):
        if part not in found.parts:
            found.doubts.append(f"{part}: no column looks like it; name one")
    if "propensity" not in found.parts:
        found.doubts.append("propensity: no column looks like it; it will be estimated, which is second best")
    elif "action" in found.parts:
        _judge_propensity(found, sample)
    reward = found.column("reward") or ""
    if any(word in COSTS for column in sample.columns for word in words_of(column.name)) and not reward:
        found.doubts.append("reward: there is a cost; a reward must be larger where it is better, so turn its sign")


def _judge_propensity(found: Guesses, sample: Sample) -> None:
    """The mean of 1/p is the number of actions, where p is the probability of the action that was taken."""
    values = next(column.numbers for column in sample.columns if column.name == found.column("propensity"))
    mean, error = float((1 / values).mean()), float((1 / values).std()) / np.sqrt(values.size)
    if "available" not in found.parts and abs(mean - found.n_actions) > 4 * error + 0.1 * found.n_actions:
        found.doubts.append(
            f"propensity: 1/{found.column('propensity')} averages {mean:.3g} and there are {found.n_actions} actions; "
            "the two agree where it is the probability of the action that was taken"
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)
