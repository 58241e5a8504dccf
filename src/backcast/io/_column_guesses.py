"""Profile a sample of a table and guess the role of each column (for ``backcast init``)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.types as kinds

from backcast._arrays import FloatArray
from backcast.errors import ColumnError, LogError, SourceError
from backcast.io._arrow import TRUTH_WORDS, find_date_format, flatten_lists, kind_of, to_python_values
from backcast.io._csv_dialect import check_dialect_options
from backcast.io._files import FilePath, Files, convert_read_errors, find_files
from backcast.io._slices import OpenedFiles, open_files

ROWS = 5_000  # of a sample
CHECKED_BYTES = 2**26  # of JSON, more than Arrow reads ahead for a sample
COUNTED_BYTES = 2**22  # of a text file, in which lines are counted
UNCOMPRESSED = (".csv", ".tsv", ".ndjson", ".jsonl", ".json")
# Words in the names of columns by role, the most likely first.
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
# Names of columns that hold the probability of the action, also where their values are wrong.
CALLED_PROPENSITY = ("propensity", "propensities", "pscore", "probability", "prob")
# Words of outcomes, which are not known when the action is chosen, and words of their past values, which are.
OUTCOMES = (
    *("reward", "click", "clicked", "clicks", "conversion", "converted", "purchase", "purchased", "revenue", "payoff"),
    *(
        "outcome",
        "profit",
        "success",
        "opened",
        "bought",
        "sale",
        "sales",
        "sold",
        "order",
        "ordered",
        "orders",
        "dwell",
    ),
    *("churn", "churned", "spend", "spent", "refund", "refunded", "unsubscribed", "bounce", "bounced", "margin"),
    *("latency", "complaint", "complaints", "complained"),
)
OUTCOME_BY_NAME = "an outcome by its name, not known before the action"
HISTORY = (
    *(
        "past",
        "prior",
        "previous",
        "prev",
        "last",
        "history",
        "historical",
        "before",
        "lifetime",
        "ever",
        "avg",
        "mean",
    ),
    *("average", "rate", "ctr", "days", "ago", "since", "recent", "total", "count", "n", "num"),
)
# Words of times that are not that of the decision.
OTHER_TIMES = (
    *("signup", "sign", "birth", "birthday", "born", "dob", "registered", "registration", "joined", "since", "last"),
    *("first", "updated", "modified", "expires", "expiry", "end", "start", "previous", "prev"),
)
SHOWN_ROWS = 5  # rows with bad values that are named
IDENTIFIERS = ("id", "uuid", "guid", "index", "key", "session", "request")
COSTS = ("cost", "loss", "regret")
MOST_ACTIONS = 1000  # distinct values of a column that may be the action
MOST_CATEGORIES = 200  # distinct values of a text column that may be context


@dataclass(frozen=True)
class Profile:
    """Summary of a column in the sample.

    ``kind`` is number, text, list, empty or other; ``numbers`` are the values of a number column, and of a list column
    the sums of its lists (nan if they do not hold numbers).
    """

    name: str
    kind: str
    distinct: int
    missing: int
    numbers: FloatArray
    lengths: tuple[int, ...] = ()
    is_boolean: bool = False
    is_time: bool = False

    @property
    def is_whole(self) -> bool:
        return self.kind == "number" and self.numbers.size > 0 and bool((self.numbers == np.floor(self.numbers)).all())

    def lies_in(self, low: float, high: float) -> bool:
        return self.kind == "number" and self.numbers.size > 0 and self.low >= low and self.high <= high

    @property
    def low(self) -> float:
        return float(self.numbers.min()) if self.numbers.size else float("nan")

    @property
    def high(self) -> float:
        return float(self.numbers.max()) if self.numbers.size else float("nan")


@dataclass(frozen=True)
class Sample:
    """The first rows of the first file of a log: profiles of its columns, and the approximate number of all rows."""

    format: str
    rows: int
    total: int | None
    columns: tuple[Profile, ...]
    table: Any

    def profile(self, name: str | None) -> Profile | None:
        return next((column for column in self.columns if column.name == name), None)

    def values(self, name: str) -> list[Any]:
        return to_python_values(self.table.column(name).combine_chunks())


def take_sample(
    path: FilePath,
    file_format: str | None = None,
    rows: int = ROWS,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> Sample:
    r"""Read the first rows of a log, and no more, and profile its columns.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "log.csv")
    >>> _ = file.write_text("hour,shown,p\n7,mail,0.5\n9,none,0.25\n")
    >>> sample = take_sample(file)
    >>> sample.rows, sample.total, [(column.name, column.kind, column.distinct) for column in sample.columns]
    (2, 2, [('hour', 'number', 2), ('shown', 'text', 2), ('p', 'number', 2)])
    """
    check_dialect_options(delimiter, encoding)
    files = find_files(path, file_format)
    opened = open_files(files, CHECKED_BYTES, delimiter=delimiter, encoding=encoding)
    with convert_read_errors(files.paths[0], files.format):
        table = _read_head(files, opened, rows)
    if table.num_rows == 0:
        raise LogError(f"{files.paths[0]}: it has no rows; a log needs at least one event")
    if opened.dialect is not None and table.num_columns == 1:
        raise SourceError(
            f"{files.paths[0]}: its lines have one field, {table.column_names[0]!r}; a log needs columns for action "
            "and reward, divided by commas, semicolons, tabs or bars. Give the delimiter if it is another character"
        )
    profiles = tuple(_profile_column(name, table.column(name).combine_chunks()) for name in table.column_names)
    return Sample(files.format, table.num_rows, _estimate_rows(files, opened, table.num_rows), profiles, table)


def _read_head(files: Files, opened: OpenedFiles, rows: int) -> pa.Table:
    """Return the first rows; of text, no block is parsed after the one that completes them."""
    fragment, dialect = opened.fragments[0], opened.dialect
    if dialect is None:
        return fragment.head(rows)
    batches: list[pa.RecordBatch] = []
    options = (dialect.read_options(use_threads=False), dialect.parse_options(), dialect.convert_options())
    # The dataset reader would parse some blocks ahead, and fail on errors far from here.
    with files.filesystem.open_input_stream(fragment.path) as stream:
        for batch in pyarrow.csv.open_csv(stream, *options):
            batches.append(batch)
            if sum(batch.num_rows for batch in batches) >= rows:
                break
    return pa.Table.from_batches(batches, batches[0].schema).slice(0, rows) if batches else fragment.head(0)


def _profile_column(name: str, column: pa.Array) -> Profile:
    kind = kind_of(column.type)
    if kind == "list":
        return Profile(name, kind, 0, column.null_count, *_profile_lists(column, name))
    missing, numbers, distinct = column.null_count, np.zeros(0), 0
    if kind == "number":
        # Whole numbers past 2**53 are rounded: they are identifiers, and only their size matters.
        numbers = np.asarray(pc.cast(column.drop_null(), pa.float64(), safe=False).to_numpy(zero_copy_only=False))
        missing += int(np.isnan(numbers).sum())
        numbers = numbers[~np.isnan(numbers)]
    if kind != "empty":
        with suppress(pa.ArrowNotImplementedError):  # structs, which can have no role
            distinct = len(pc.unique(column.drop_null()))
    is_boolean, is_time = kinds.is_boolean(column.type), kinds.is_temporal(column.type)
    profile = Profile(name, kind, distinct, missing, numbers, is_boolean=is_boolean, is_time=is_time)
    return _profile_text(profile, column) if kind == "text" and distinct else profile


def _profile_text(profile: Profile, column: pa.Array) -> Profile:
    """Return the profile of text: of words for 0 and 1 as numbers, of dates as times."""
    values = [str(value) for value in to_python_values(column) if value is not None]
    if profile.distinct <= 2 and all(value.strip().lower() in TRUTH_WORDS for value in values):
        numbers = np.array([TRUTH_WORDS[value.strip().lower()] for value in values])
        return replace(profile, kind="number", numbers=numbers, is_boolean=True)
    try:
        is_time = find_date_format(values, profile.name) is not None
    except ColumnError:  # the day or the month may come first
        is_time = True
    with suppress(ValueError):
        is_time = is_time or all(datetime.fromisoformat(value.strip()).year > 1 for value in values)
    return replace(profile, is_time=is_time)


def _profile_lists(column: pa.Array, name: str) -> tuple[FloatArray, tuple[int, ...]]:
    """Return the sum of each list, nan if it does not hold numbers, and the distinct lengths."""
    lists = column.drop_null()
    entries, lengths = flatten_lists(lists, name, "column")
    distinct_lengths = tuple(sorted({int(length) for length in lengths}))
    if kind_of(entries.type) != "number" or kinds.is_boolean(entries.type) or entries.null_count:
        return np.full(len(lists), np.nan), distinct_lengths
    row_of_entry = np.repeat(np.arange(lengths.size), lengths)
    values = np.asarray(pc.cast(entries, pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    sums = np.bincount(row_of_entry, weights=values, minlength=lengths.size)
    return np.asarray(sums, dtype=np.float64), distinct_lengths


def _estimate_rows(files: Files, opened: OpenedFiles, sampled: int) -> int | None:
    """Return the rows of all files: announced, or estimated from the length of lines; None if unknown."""
    if files.format == "parquet":
        return sum(int(fragment.metadata.num_rows) for fragment in opened.fragments)
    if not all(os.path.isfile(path) and path.lower().endswith(UNCOMPRESSED) for path in files.paths):
        return None if sampled >= ROWS else sampled
    header_lines = 0 if files.format == "ndjson" else 1
    return sum(max(0, _estimate_lines(path) - header_lines) for path in files.paths)


def _estimate_lines(path: str) -> int:
    with open(path, "rb") as file:
        head = file.read(COUNTED_BYTES)
    lines = head.count(b"\n") + (not head.endswith(b"\n"))
    size = os.path.getsize(path)
    return lines if size <= len(head) else round(size * lines / len(head))


@dataclass(frozen=True)
class Guess:
    """The columns that seem to have a role, the reason, and whether the guess is certain."""

    columns: tuple[str, ...]
    why: str
    sure: bool = True


@dataclass
class Guesses:
    """Guesses by role, the columns left out with a reason, and doubts that the user should resolve."""

    roles: dict[str, Guess] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    n_actions: int = 0

    def column(self, role: str) -> str | None:
        return self.roles[role].columns[0] if role in self.roles else None

    @property
    def assigned(self) -> set[str]:
        return {name for guess in self.roles.values() for name in guess.columns}


def guess_columns(sample: Sample) -> Guesses:
    """Guess the role of every column of a sample."""
    guesses = Guesses()
    in_series = {c.name for group in _find_series(sample.columns, set()) if len(group) > 1 for c in group}
    called = [c.name for c in sample.columns if _is_called_propensity(c) and c.name not in in_series]
    _guess_column(guesses, "propensity", [c for c in sample.columns if _may_be_propensity(c) or c.name in called])
    _guess_column(guesses, "action", [c for c in sample.columns if _may_be_action(c, sample.rows)])
    named = [c.name for c in sample.columns if c.missing and _rank_name(c.name, "reward") < 100]
    _guess_column(
        guesses, "reward", [c for c in sample.columns if c.kind == "number" and (not c.missing or c.name in named)]
    )
    _guess_times(guesses, sample)
    action = sample.profile(guesses.column("action"))
    if action is not None:
        from_zero = action.is_whole and action.low == 0 and not action.is_boolean
        guesses.n_actions = int(action.high) + 1 if from_zero else action.distinct
    _guess_matrices(guesses, sample)
    _guess_context(guesses, sample)
    _add_doubts(guesses, sample)
    return guesses


def split_words(name: str) -> list[str]:
    """Return the words of a column's name.

    >>> split_words("isClicked_2"), split_words("P")
    (['is', 'clicked', '2'], ['p'])
    """
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return [word for word in re.split(r"[\W_]+", spaced.lower()) if word]


def _rank_name(name: str, role: str) -> float:
    """Return how well a name fits a role: 0 is best, infinity does not fit; each further word costs 100."""
    words, known = split_words(name), NAMES[role]
    ranks = [known.index(word) for word in words if word in known]
    return min(ranks) + 100.0 * (len(words) - 1) if ranks else float("inf")


def _may_be_propensity(column: Profile) -> bool:
    return column.lies_in(0, 1) and column.low > 0 and not column.missing and not column.is_boolean


def _is_called_propensity(column: Profile) -> bool:
    """Return whether a column is called a propensity, whatever its values: faults in them are named later."""
    is_scalar = column.kind in ("number", "text") and not column.is_boolean
    return is_scalar and any(word in CALLED_PROPENSITY for word in split_words(column.name))


def _may_be_action(column: Profile, rows: int) -> bool:
    has_few_values = 2 <= column.distinct <= min(MOST_ACTIONS, max(2, rows // 2))
    return has_few_values and not column.missing and (column.kind == "text" or column.is_boolean or column.is_whole)


def _guess_column(guesses: Guesses, role: str, candidates: Sequence[Profile]) -> None:
    """Choose the candidate with the best name; if no name fits, the first whose values suggest the role."""
    free = [column for column in candidates if column.name not in guesses.assigned]
    named = [(rank, column.name) for column in free if (rank := _rank_name(column.name, role)) < np.inf]
    if named:
        named.sort(key=lambda pair: pair[0])
        best = named[0][1]
        others = ", ".join(repr(name) for rank, name in named[1:] if rank < 100)
        guesses.roles[role] = Guess((best,), "by its name", sure=not others)
        if others:
            guesses.doubts.append(f"{role}: {best!r} was chosen, but {others} may be meant")
        return
    likely = [column.name for column in free if _is_likely(role, column)]
    if likely:
        guesses.roles[role] = Guess((likely[0],), "by its values alone", sure=False)
        guesses.doubts.append(f"{role}: no name fits; {likely[0]!r} was chosen by its values")


def _is_likely(role: str, column: Profile) -> bool:
    """Return whether the values alone suggest a role."""
    if any(word in IDENTIFIERS for word in split_words(column.name)):
        return False
    if role == "propensity":
        return not column.is_whole
    if role == "action":
        return column.kind == "text" or (column.is_whole and column.low in (0, 1) and column.distinct > 2)
    return column.distinct == 2 and column.is_whole


def _guess_times(guesses: Guesses, sample: Sample) -> None:
    candidates = [
        column
        for column in sample.columns
        if (column.is_time or (column.kind == "number" and _rank_name(column.name, "times") < 100))
        and column.name not in guesses.assigned
        and not column.missing
    ]
    if not candidates:
        return
    best = min(candidates, key=lambda column: _rank_time(column.name))
    guesses.roles["times"] = Guess((best.name,), "it holds times" if best.is_time else "by its name")
    if _rank_time(best.name) == 3:
        guesses.roles["times"] = replace(guesses.roles["times"], sure=False)
        guesses.doubts.append(f"times: {best.name!r} was chosen; is it the time of the decision?")


def _rank_time(name: str) -> int:
    """Return how well a name fits the time of a decision: 0 is best, 3 the time of something else.

    >>> _rank_time("event_time"), _rank_time("created_at"), _rank_time("signup_date")
    (1, 2, 3)
    """
    words = split_words(name)
    if any(word in OTHER_TIMES for word in words):
        return 3
    return 2 - any(word in NAMES["times"] for word in words) - (len(words) == 1 and words[0] in NAMES["times"])


def _guess_matrices(guesses: Guesses, sample: Sample) -> None:
    """Guess the columns with a value per action: probabilities that sum to 1, and which actions were eligible."""
    for column in sample.columns:
        if column.kind == "list" and not column.missing and column.name not in guesses.assigned:
            role = "logging_probabilities" if _all_one(column.numbers) else "available"
            if role == "logging_probabilities" or _rank_name(column.name, role) < np.inf:
                guesses.roles.setdefault(role, Guess((column.name,), "a list for each event"))
    for columns in _find_series(sample.columns, guesses.assigned):
        names = tuple(column.name for column in columns)
        if len(columns) == guesses.n_actions and all(column.lies_in(0, 1) for column in columns):
            if _all_one(np.sum([column.numbers for column in columns], axis=0)):
                guesses.roles.setdefault("logging_probabilities", Guess(names, "they sum to 1"))
            elif _rank_name(names[0], "available") < np.inf and all(column.is_whole for column in columns):
                guesses.roles.setdefault("available", Guess(names, "by their names"))


def _all_one(sums: FloatArray) -> bool:
    return sums.size > 0 and bool((np.abs(sums - 1) < 1e-3).all())


def _find_series(columns: Iterable[Profile], assigned: set[str]) -> list[list[Profile]]:
    """Return groups of number columns whose names differ only in the number at the end, in its order."""
    series: dict[str, list[tuple[int, Profile]]] = {}
    for column in columns:
        numbered = re.fullmatch(r"(.*?)(\d+)", column.name)
        if numbered and column.kind == "number" and not column.missing and column.name not in assigned:
            series.setdefault(numbered[1], []).append((int(numbered[2]), column))
    return [[column for _, column in sorted(group, key=lambda pair: pair[0])] for group in series.values()]


def _guess_context(guesses: Guesses, sample: Sample) -> None:
    names = []
    for column in sample.columns:
        if column.name in guesses.assigned:
            continue
        reason = _reason_against_context(column, sample.rows)
        if reason:
            guesses.left_out[column.name] = reason
        else:
            names.append(column.name)
    reason = "all other columns" if names else "no column is left for it"
    guesses.roles["context"] = Guess(tuple(names), reason, sure=bool(names))
    outcomes = [
        column.name
        for column in sample.columns
        if guesses.left_out.get(column.name) == OUTCOME_BY_NAME and column.kind == "number" and not column.missing
    ]
    if outcomes and "reward" in guesses.roles:
        guesses.roles["outcomes"] = Guess(tuple(outcomes), "outcomes by their names, besides the reward", sure=True)
        for name in outcomes:
            del guesses.left_out[name]


def _reason_against_context(column: Profile, rows: int) -> str:
    """Return why a column cannot be context; empty if it can."""
    words = split_words(column.name)
    if any(word in OUTCOMES for word in words) and not any(word in HISTORY for word in words):
        return OUTCOME_BY_NAME
    if column.is_time:
        return "a time; add it to context to use its hour and weekday"
    is_vector = column.kind == "list" and len(column.lengths) == 1 and not np.isnan(column.numbers).any()
    if column.kind in ("other", "empty") or (column.kind == "list" and not is_vector):
        return "neither numbers nor text"
    if column.missing:
        return f'missing in {column.missing:,} of {rows:,} rows; add it to context and set fill = "mean" to use it'
    if is_vector:
        return ""
    if column.distinct == 1 and rows > 1:
        return "always the same"
    if any(word in IDENTIFIERS for word in split_words(column.name)) and column.distinct > rows / 2:
        return "an identifier by its name"
    if column.kind == "text" and column.distinct > max(MOST_CATEGORIES, rows / 2):
        return f"text with {column.distinct:,} different values"
    counts_rows = column.is_whole and rows > 2 and bool((np.diff(column.numbers) == 1).all())
    return "it counts the rows" if counts_rows else ""


def _add_doubts(guesses: Guesses, sample: Sample) -> None:
    """Add the doubts that the user should resolve before using the guesses."""
    for role in ("action", "reward"):
        if role not in guesses.roles:
            guesses.doubts.append(f"{role}: no column looks like it; name one")
    if "propensity" not in guesses.roles:
        guesses.doubts.append("propensity: no column looks like it; it will be estimated, which is less reliable")
    else:
        _check_propensity(guesses, sample)
    reward = sample.profile(guesses.column("reward"))
    if reward is not None and reward.missing:
        guesses.doubts.append(
            f"reward: {reward.name!r} is missing in {reward.missing:,} of {sample.rows:,} rows; write the reward of "
            "every event, or leave these rows out with where"
        )
    has_cost = any(word in COSTS for column in sample.columns for word in split_words(column.name))
    if has_cost and "reward" not in guesses.roles:
        guesses.doubts.append("reward: there is a cost; a larger reward must be better, so reverse its sign")


def _check_propensity(guesses: Guesses, sample: Sample) -> None:
    """Add doubts about values that are no probabilities, and if the mean of 1/p is not the number of actions."""
    profile = sample.profile(guesses.column("propensity"))
    assert profile is not None
    name = profile.name
    faults = _find_bad_propensities(sample, profile)
    if faults:
        guesses.doubts.append(f"propensity: {faults}")
        guesses.roles["propensity"] = replace(guesses.roles["propensity"], sure=False)
        return
    weights = 1 / profile.numbers
    mean, std_error = float(weights.mean()), float(weights.std()) / np.sqrt(weights.size)
    if "action" not in guesses.roles or "available" in guesses.roles:
        return
    if abs(mean - guesses.n_actions) > 4 * std_error + 0.1 * guesses.n_actions:
        guesses.doubts.append(
            f"propensity: the mean of 1/{name} is {mean:.3g} and there are {guesses.n_actions} actions; "
            "the two agree if it is the probability of the logged action"
        )


def _find_bad_propensities(sample: Sample, profile: Profile) -> str:
    """Return which rows of the sample hold no probability, and the remedy; empty if all do."""
    values = sample.values(profile.name)
    bad = [row for row, value in enumerate(values) if not (isinstance(value, int | float) and 0 < value <= 1)]
    if not bad:
        return ""
    shown = ", ".join(f"row {row} ({values[row]!r})" for row in bad[:SHOWN_ROWS])
    more = f" and {len(bad) - SHOWN_ROWS:,} more" if len(bad) > SHOWN_ROWS else ""
    numbers = [value for value in values if isinstance(value, int | float)]
    are_percents = len(numbers) == len(values) and max(numbers) <= 100 and float(np.median(numbers)) > 1
    remedy = (
        "they look like percents: divide them by 100"
        if are_percents
        else "repair these rows, or leave them out with where"
    )
    return f"{profile.name!r} has values outside of (0, 1] in {shown}{more}; {remedy}"
