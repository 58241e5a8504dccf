"""A first look at a file: some rows of it, and what each column holds."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.types as kinds

from backcast._arrays import FloatArray
from backcast.errors import LogError
from backcast.io._arrow import flatten_lists, to_python_values
from backcast.io._columns import kind_of
from backcast.io._files import FilePath, Files, convert_read_errors, find_files
from backcast.io._slices import open_files

ROWS = 5_000


LOOKED_AT = 2**26  # bytes of JSON, more than a first look reads ahead


COUNTED = 2**22  # bytes of a text file in which lines are counted


@dataclass(frozen=True)
class Profile:
    """What a column holds, as far as the sample shows.

    ``kind`` is number, text, list, empty or other; ``numbers`` are the values of a number column, and of a list column
    the sums of its lists (nan where they are no numbers).
    """

    name: str
    kind: str
    distinct: int
    missing: int
    numbers: FloatArray
    lengths: tuple[int, ...] = ()
    is_truth: bool = False
    is_time: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether it holds whole numbers only."""
        return self.kind == "number" and self.numbers.size > 0 and bool((self.numbers == np.floor(self.numbers)).all())

    def lies_in(self, low: float, high: float) -> bool:
        """Whether it holds numbers of this range only."""
        return self.kind == "number" and self.numbers.size > 0 and self.low >= low and self.high <= high

    @property
    def low(self) -> float:
        """The smallest number."""
        return float(self.numbers.min()) if self.numbers.size else float("nan")

    @property
    def high(self) -> float:
        """The largest number."""
        return float(self.numbers.max()) if self.numbers.size else float("nan")


@dataclass(frozen=True)
class Sample:
    """The first rows of a log's first file: profiles of its columns, and about how many rows there are in all."""

    format: str
    rows: int
    total: int | None
    columns: tuple[Profile, ...]
    table: Any

    def values(self, name: str) -> list[Any]:
        """The values of a column."""
        return to_python_values(self.table.column(name).combine_chunks())


def take_sample(path: FilePath, file_format: str | None = None, rows: int = ROWS) -> Sample:
    r"""Look at the first rows of a log; no more than these are read, however long it is.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "log.csv")
    >>> _ = file.write_text("hour,shown,p\n7,mail,0.5\n9,none,0.25\n")
    >>> sample = take_sample(file)
    >>> sample.rows, sample.total, [(column.name, column.kind, column.distinct) for column in sample.columns]
    (2, 2, [('hour', 'number', 2), ('shown', 'text', 2), ('p', 'number', 2)])
    """
    files = find_files(path, file_format)
    opened = open_files(files, LOOKED_AT)
    with convert_read_errors(files.paths[0], files.format):
        table = _head(files, opened.fragments[0], rows)
    if table.num_rows == 0:
        raise LogError(f"{files.paths[0]}: there is no row in it; a log needs at least one event")
    profiles = tuple(profile_of(name, table.column(name).combine_chunks()) for name in table.column_names)
    return Sample(files.format, table.num_rows, _total(files, opened, table.num_rows), profiles, table)


def _head(files: Files, fragment: Any, rows: int) -> pa.Table:
    """The first rows; of text files, nothing after their last block is parsed."""
    if files.format not in ("csv", "tsv"):
        return fragment.head(rows)
    found: list[pa.RecordBatch] = []
    parsing = pyarrow.csv.ParseOptions(delimiter="\t" if files.format == "tsv" else ",")
    # the dataset reader would parse some blocks ahead, and fail on what is far from here
    with files.filesystem.open_input_stream(fragment.path) as stream:
        for batch in pyarrow.csv.open_csv(stream, pyarrow.csv.ReadOptions(use_threads=False), parsing):
            found.append(batch)
            if sum(one.num_rows for one in found) >= rows:
                break
    return pa.Table.from_batches(found, found[0].schema).slice(0, rows) if found else fragment.head(0)


def profile_of(name: str, column: pa.Array) -> Profile:
    """What a column holds."""
    type_ = column.type
    kind = kind_of(type_)
    missing = column.null_count
    if kind == "list":
        return Profile(name, kind, 0, missing, *_lists(column, name))
    numbers = np.zeros(0)
    if kind == "number":
        # whole numbers past 2**53 are rounded: they are identifiers, and only their size matters
        numbers = np.asarray(pc.cast(column.drop_null(), pa.float64(), safe=False).to_numpy(zero_copy_only=False))
        missing += int(np.isnan(numbers).sum())
        numbers = numbers[~np.isnan(numbers)]
    distinct = _distinct(column, kind)
    is_time = kinds.is_temporal(type_)
    return Profile(name, kind, distinct, missing, numbers, (), kinds.is_boolean(type_), is_time)


def _distinct(column: pa.Array, kind: str) -> int:
    if kind == "empty":
        return 0
    try:
        return len(pc.unique(column.drop_null()))
    except pa.ArrowNotImplementedError:
        return 0  # a table in a column, or another kind that no part is made of


def _lists(column: pa.Array, name: str) -> tuple[FloatArray, tuple[int, ...]]:
    """Sums of the lists, where they hold numbers, and their lengths, each once."""
    full = column.drop_null()
    entries, lengths = flatten_lists(full, name, "column")
    shown = tuple(sorted({int(length) for length in lengths}))
    if kind_of(entries.type) != "number" or kinds.is_boolean(entries.type) or entries.null_count:
        return np.full(len(full), np.nan), shown
    owner = np.repeat(np.arange(lengths.size), lengths)
    values = np.asarray(pc.cast(entries, pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    return np.asarray(np.bincount(owner, weights=values, minlength=lengths.size), dtype=np.float64), shown


def _total(files: Files, opened: Any, seen: int) -> int | None:
    """Rows in all files: as they say, or by the length of a line; None where that cannot be told."""
    if files.format == "parquet":
        return sum(int(fragment.metadata.num_rows) for fragment in opened.fragments)
    if not all(os.path.isfile(path) and path.lower().endswith(PLAIN) for path in files.paths):
        return None if seen >= ROWS else seen
    return sum(_lines(path, header=files.format != "ndjson") for path in files.paths)


PLAIN = (".csv", ".tsv", ".ndjson", ".jsonl", ".json")


def _lines(path: str, *, header: bool) -> int:
    with open(path, "rb") as file:
        head = file.read(COUNTED)
    lines = head.count(b"\n") + (not head.endswith(b"\n"))
    size = os.path.getsize(path)
    return max(0, (lines if size <= len(head) else round(size * lines / len(head))) - header)


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
