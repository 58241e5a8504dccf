"""Decisions of Vowpal Wabbit to a Log: what all of them have in common, then contexts, masks and probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from backcast._arrays import BoolArray, Contexts, FloatArray
from backcast._log_validation import EncodedActions, RowError, check_number_of_actions
from backcast.errors import OptionError, SourceError
from backcast.io._columns import DENSE_LIMIT
from backcast.io._vw_events import EVENT_READERS, VwEvent
from backcast.io._vw_features import SHARED_BY_ACTION, FeatureHashing, crosses, list_letters, resolve_interactions
from backcast.io.limits import MOST_FEATURES, VW_IN_PARTS, check_positive_integer, check_size, size_error
from backcast.log import Log

MANY_ACTIONS = 100_000  # a larger action number is more likely a typing error than a log


@dataclass(frozen=True)
class VwOptions:
    """Options of :func:`backcast.read_vw`."""

    format: str | None
    hash_size: int
    interactions: str | Sequence[str] | None
    n_actions: int | None
    reward_scale: float
    reward_range: tuple[float, float] | None

    def __post_init__(self) -> None:
        check_positive_integer("hash_size", self.hash_size, MOST_FEATURES)
        if isinstance(self.n_actions, int):
            check_number_of_actions(self.n_actions)
        if self.format is not None and self.format not in EVENT_READERS:
            raise OptionError(f"format is {self.format!r}; it must be one of {', '.join(map(repr, EVENT_READERS))}")
        resolve_interactions(self.interactions)

    @property
    def pairs(self) -> tuple[str, ...]:
        """The crossings, as pairs of letters or the default one."""
        return resolve_interactions(self.interactions)

    def describe(self) -> dict[str, Any]:
        """Return the options by name, for provenance, which leaves out None."""
        return {**vars(self), "interactions": [] if self.interactions is None else self.interactions}


class LocatedEvent(NamedTuple):
    """A decision and the file that it was read from."""

    file: str
    event: VwEvent


class VwLayout(NamedTuple):
    """What all parts of a log have in common: K, the columns that it has, and the crossings that it uses."""

    n_actions: int
    has_action_features: bool
    has_mask: bool
    has_probabilities: bool
    has_times: bool
    features_per_event: float
    interactions: tuple[str, ...]

    def is_sparse(self, hash_size: int) -> bool:
        """Return whether contexts are a CSR matrix."""
        return not self.has_action_features and hash_size > DENSE_LIMIT

    def bytes_per_event(self, hash_size: int) -> int:
        """Return the approximate memory of one event."""
        numbers = hash_size * (self.n_actions if self.has_action_features else 1)
        contexts = 12 * self.features_per_event if self.is_sparse(hash_size) else 8 * numbers
        return int(contexts) + self.n_actions * (self.has_mask + 8 * self.has_probabilities) + 5 * 8


class VwSurvey:
    """Looks at all decisions of a log, one after another, and refuses those that do not belong in one log."""

    def __init__(self, interactions: tuple[str, ...]) -> None:
        self.n_events = self.n_features = 0
        self._first: VwEvent | None = None
        self._largest: LocatedEvent | None = None
        self._fewest_eligible = math.inf
        self._has_probabilities = self._has_times = True
        self._interactions, self._unused = interactions, list(interactions)
        self._letters: set[str] = set()

    def add(self, located: LocatedEvent) -> None:
        """Look at the next decision."""
        event = located.event
        self._first = event if self._first is None else self._first
        _check_consistent(located, self._first)
        if self._largest is None or event.n_actions > self._largest.event.n_actions:
            self._largest = located
        if event.actions is not None or event.eligible:
            self._fewest_eligible = min(self._fewest_eligible, len(event.eligible or event.actions or ()))
        self._has_probabilities &= event.probabilities is not None
        self._has_times &= event.time is not None
        self.n_events += 1
        self.n_features += len(event.shared) + sum(map(len, event.actions or ()))
        if self._unused:
            self._unused = [pair for pair in self._unused if not crosses(event, pair)]
            self._letters |= list_letters(event)

    def layout(self, n_actions: int | None) -> VwLayout:
        """Return what the decisions have in common, with K as declared or as found."""
        assert self._first is not None
        assert self._largest is not None
        n_actions = _find_number_of_actions(self._largest, n_actions)
        for pair in self._unused:
            if pair != SHARED_BY_ACTION:
                # it would be left out without a word
                letters = ", ".join(sorted(map(repr, self._letters)))
                raise OptionError(
                    f"interactions: no decision has features in both namespaces of {pair!r}; the first letters of "
                    f"namespaces are {letters}"
                )
        return VwLayout(
            n_actions,
            self._first.actions is not None,
            self._fewest_eligible < n_actions,
            self._has_probabilities,
            self._has_times,
            self.n_features / self.n_events,
            tuple(pair for pair in self._interactions if pair not in self._unused),
        )


def _check_consistent(located: LocatedEvent, first: VwEvent) -> None:
    """Refuse a decision that contradicts itself, or does not belong in one log with the first."""
    event = located.event
    n_listed = None if event.actions is None else len(event.actions)
    problem = ""
    if (event.actions is None) != (first.actions is None):
        problem = "some decisions list features of their actions and others do not; read them separately"
    elif n_listed is not None and event.action >= n_listed:
        problem = f"the logged action is number {event.action + 1}, but only {n_listed} are listed"
    elif n_listed is not None and event.probabilities and len(event.probabilities) != n_listed:
        problem = f"{n_listed} actions are listed, but {len(event.probabilities)} probabilities"
    elif event.drop_rate != first.drop_rate:
        problem = (
            f"pdrop is {event.drop_rate:g}, and {first.drop_rate:g} before; a log that was subsampled at varying "
            "rates is no fair sample. Subsample the remaining decisions again, so that all have one rate"
        )
    if problem:
        raise SourceError(f"{located.file}, line {event.line}: {problem}")


def _find_number_of_actions(largest: LocatedEvent, declared: int | None) -> int:
    file, event = largest
    if declared is not None and event.n_actions > declared:
        raise SourceError(f"{file}, line {event.line}: {event.n_actions} actions, but n_actions is {declared}")
    if declared is None and event.n_actions > MANY_ACTIONS:
        raise SourceError(
            f"{file}, line {event.line}: action number {event.n_actions}; give n_actions if there are so many"
        )
    return event.n_actions if declared is None else declared


def build_vw_log(located: Sequence[LocatedEvent], layout: VwLayout, options: VwOptions) -> Log:
    """Return the log of these decisions, all of a log or one part; faults are reported with file and line."""
    events, n_actions = [each.event for each in located], layout.n_actions
    propensities = np.array([event.probability for event in events])
    labels = range(n_actions) if layout.has_action_features else range(1, n_actions + 1)
    probabilities = None
    if layout.has_probabilities:
        probabilities = _build_logging_probabilities(events, propensities, n_actions)
    try:
        return Log(
            _build_contexts(events, layout, options),
            EncodedActions(np.array([event.action for event in events]), tuple(labels)),
            options.reward_scale * np.array([event.cost for event in events]) + 0.0,  # no -0.0
            propensities,
            available=_build_mask(events, n_actions) if layout.has_mask else None,
            times=np.array([event.time for event in events]) if layout.has_times else None,
            reward_range=options.reward_range,
            logging_probabilities=probabilities,
        )
    except RowError as error:
        file, event = located[error.row]
        raise error.shift(0, f"{file}, line {event.line}") from None


def _build_contexts(events: list[VwEvent], layout: VwLayout, options: VwOptions) -> Contexts:
    """Return hashed features ``(n, K, d)`` if decisions list their actions, else ``(n, d)``; CSR if d is large.

    Refuses a log that does not fit in memory.
    """
    shape: tuple[int, ...] = (len(events), options.hash_size)
    if layout.has_action_features:
        shape = (len(events), layout.n_actions, options.hash_size)
    is_sparse = layout.is_sparse(options.hash_size)
    other_numbers = 3 + layout.n_actions * (layout.has_mask + layout.has_probabilities)
    remedy = f"lower hash_size or {VW_IN_PARTS}"
    check_size(len(events), (0 if is_sparse else math.prod(shape[1:])) + other_numbers, remedy)
    try:
        return FeatureHashing(options.hash_size, options.pairs).transform(events, layout.n_actions, is_sparse)
    except MemoryError:
        raise size_error(shape[0], 8.0 * math.prod(shape), remedy) from None


def _build_mask(events: list[VwEvent], n_actions: int) -> BoolArray:
    """Return the mask of eligible actions."""
    counts = np.array([n_actions if event.actions is None else len(event.actions) for event in events])
    mask: BoolArray = np.arange(n_actions) < counts[:, None]
    for row, event in enumerate(events):
        if event.eligible:
            mask[row] = [action in event.eligible for action in range(n_actions)]
    return mask


def _build_logging_probabilities(events: list[VwEvent], propensities: FloatArray, n_actions: int) -> FloatArray:
    """Return the probabilities of all actions, rows that sum to 1 but for their printed digits made to.

    ``_label_probability`` is compared with the probabilities as they were recorded. It stays as it is, and those of the
    other actions are scaled; only a propensity that must be 1 is corrected, in place. Other rows are left as they are,
    and the log refuses them.
    """
    matrix = np.zeros((len(events), n_actions))
    for row, event in enumerate(events):
        recorded, propensity = event.probabilities or [], event.probability
        matrix[row, : len(recorded)] = recorded
        error = _rounding_error(recorded, propensity)
        total = sum(recorded)
        if event.action >= len(recorded) or abs(total - 1) > max(1e-3, len(recorded) * error):
            continue
        if abs(recorded[event.action] - propensity) > error:
            continue
        others = total - recorded[event.action]
        if others > 0:
            matrix[row] *= max(0.0, 1 - propensity) / others
            matrix[row, event.action] = propensity
        else:
            matrix[row, event.action] = propensities[row] = 1.0
    return matrix


def _rounding_error(recorded: list[float], propensity: float) -> float:
    """Return half a unit of the last printed decimal, at least the precision of a 32-bit float.

    Numbers lose trailing zeros, so that the longest of the row counts, and three decimals or more of the propensity.

    >>> _rounding_error([0.24619, 0.5, 0.25381], 0.24619), _rounding_error([0.5, 0.25, 0.25], 0.5)
    (5e-06, 0.005)
    """
    digits = max((_count_decimals(number) for number in recorded), default=6)
    if 3 <= _count_decimals(propensity) < digits:
        digits = _count_decimals(propensity)
    return float(max(0.5 * 10.0**-digits, 1e-6))


def _count_decimals(number: float) -> int:
    exponent = Decimal(repr(number)).as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0  # neither nan nor inf has an exponent
