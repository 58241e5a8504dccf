"""mix_logs(): the logs of several known loggers as one log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from backcast._arrays import BoolArray, Contexts, FloatArray, concat_contexts, is_sparse
from backcast._log_validation import EncodedActions
from backcast._outcome_columns import EncodedSegments, merge_segments
from backcast.errors import LogError, OptionError
from backcast.log import Log, replace_columns

TOLERANCE = 1e-6  # of probabilities that should sum to 1, or equal recorded propensities


def mix_logs(logs: Sequence[Log], loggers: Sequence[Any]) -> Log:
    """Return one log from several, with the propensities of the mixture of their loggers.

    Weighting each event by the probability of its logger is unbiased too, but an action that this logger takes rarely
    gets a large weight even if another logger takes it often. The probability of the mixture avoids that: its variance
    is never larger (Agarwal, Basu, Schnabel, Joachims 2017). The contexts of all logs must come from the same
    distribution, and the loggers must be known and fixed.

    Parameters
    ----------
    logs
        Logs with the same action labels and features.
    loggers
        One per log: a function from contexts to ``(n, K)`` probabilities, a fixed policy, or an array of
        probabilities for the events of *all* logs, concatenated.

    Examples
    --------
    >>> careful = Log(None, actions=[0, 1], rewards=[0, 1], propensities=[0.75, 0.25])
    >>> bold = Log(None, actions=[0, 1], rewards=[0, 1], propensities=[0.25, 0.75])
    >>> mixed = mix_logs([careful, bold], [np.tile([0.75, 0.25], (4, 1)), np.tile([0.25, 0.75], (4, 1))])
    >>> mixed.propensities
    array([0.5, 0.5, 0.5, 0.5])
    """
    logs, loggers = list(logs), list(loggers)
    _check_logs_match(logs, loggers)
    contexts, available = _concat_log_contexts(logs), _concat_masks(logs)
    sizes = [len(log) for log in logs]
    shape = (sum(sizes), logs[0].n_actions)
    tables = [_logger_table(logger, contexts, available, shape, index) for index, logger in enumerate(loggers)]
    _check_loggers_match_logs(logs, tables)
    actions = np.concatenate([log.columns.actions for log in logs])
    mixture = balanced_probabilities(tables, sizes)
    times = [log.columns.times for log in logs if log.columns.times is not None]
    ranges = [log.reward_range for log in logs if log.reward_range is not None]
    union = Log(
        contexts,
        EncodedActions(actions, logs[0].action_labels),
        np.concatenate([log.columns.rewards for log in logs]),
        mixture[np.arange(actions.size), actions],
        available=available,
        times=np.concatenate(times) if len(times) == len(logs) else None,
        reward_range=(min(ranges)[0], max(high for _, high in ranges)) if len(ranges) == len(logs) else None,
        logging_probabilities=mixture,
        feature_names=logs[0].feature_names,
        outcomes={name: np.concatenate([log.outcomes[name] for log in logs]) for name in logs[0].outcome_names},
        segments=merge_segments([EncodedSegments(log.columns.segments, log.segment_columns) for log in logs]),
    )
    return replace_columns(union, propensities_estimated=any(log.propensities_estimated for log in logs))


def balanced_probabilities(tables: Sequence[FloatArray], sizes: Sequence[int]) -> FloatArray:
    """``sum_j (n_j / n) mu_j(a|x)``: the probability of an action in the union of logs (Veach, Guibas 1995).

    >>> balanced_probabilities([np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]])], sizes=[1, 3])
    array([[0.625, 0.375]])
    """
    total = sum(sizes)
    mixture = np.zeros_like(tables[0])
    for table, size in zip(tables, sizes, strict=True):
        mixture += size / total * table
    return mixture


def _check_logs_match(logs: list[Log], loggers: list[Any]) -> None:
    if not logs or len(logs) != len(loggers):
        raise OptionError(f"{len(logs)} logs and {len(loggers)} loggers; give at least one log, and one logger per log")
    for index, log in enumerate(logs):
        if log.action_labels != logs[0].action_labels:
            raise LogError(
                f"log {index} has other action labels than log 0; read all of them with the same action_labels"
            )
        if (log.outcome_names, log.segment_names) != (logs[0].outcome_names, logs[0].segment_names):
            raise LogError(f"log {index} has other outcomes or segment columns than log 0; give all of them the same")
        shape, first_shape = log.columns.contexts.shape, logs[0].columns.contexts.shape
        if shape[1:] != first_shape[1:]:
            raise LogError(
                f"log {index} has contexts of shape {shape}, log 0 {first_shape}; all logs need the same features"
            )
        if log.feature_names != logs[0].feature_names:
            names = zip(log.feature_names, logs[0].feature_names, strict=True)
            other, first = next((name, first) for name, first in names if name != first)
            raise LogError(
                f"log {index} has the feature {other!r} in place of {first!r}; read all of them with the same columns, "
                "and with the values of text columns declared (one_hot=...)"
            )


def _logger_table(
    logger: Any, contexts: Contexts, available: BoolArray | None, shape: tuple[int, int], index: int
) -> FloatArray:
    """Return the probability that the logger gives to every action at every event of the union."""
    if callable(getattr(logger, "learn", None)):
        raise OptionError(f"logger {index} learns; mixing needs loggers that are known and fixed")
    if callable(getattr(logger, "probabilities", None)):
        raw = logger.probabilities(contexts, available)
    else:
        raw = logger(contexts) if callable(logger) else logger
    table = np.asarray(raw, dtype=np.float64)
    if table.shape != shape:
        raise OptionError(
            f"logger {index} gives probabilities of shape {table.shape}; expected {shape}: every action at every event "
            "of all logs, concatenated, not only of its log"
        )
    wrong = ~((table >= 0).all(axis=1) & (np.abs(table.sum(axis=1) - 1) <= TOLERANCE))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise OptionError(f"logger {index}, row {row}: {table[row].tolist()}; probabilities must be >= 0 and sum to 1")
    return table


def _check_loggers_match_logs(logs: list[Log], tables: list[FloatArray]) -> None:
    """Raise if a logger contradicts the propensities of its log: it probably belongs to another log."""
    start = 0
    for index, (log, table) in enumerate(zip(logs, tables, strict=True)):
        probabilities = table[start + np.arange(len(log)), log.columns.actions]
        start += len(log)
        different = np.flatnonzero(np.abs(probabilities - log.columns.propensities) > TOLERANCE)
        if different.size and not log.propensities_estimated:
            row = int(different[0])
            raise LogError(
                f"row {int(log.rows[row])} of log {index}: propensity is {log.propensities[row]:g} but logger {index} "
                f"gives the logged action {probabilities[row]:g}; are the loggers in the order of their logs?"
            )


def _concat_log_contexts(logs: list[Log]) -> Contexts:
    """Concatenate contexts; sparse if those of any log are sparse."""
    parts = [log.columns.contexts for log in logs]
    if any(is_sparse(part) for part in parts):
        import scipy.sparse

        parts = [scipy.sparse.csr_array(part) for part in parts]
    return concat_contexts(parts)


def _concat_masks(logs: list[Log]) -> BoolArray | None:
    """Concatenate the masks of available actions; None if no log has one."""
    if all(log.columns.available is None for log in logs):
        return None
    return np.concatenate(
        [
            np.ones((len(log), log.n_actions), bool) if log.columns.available is None else log.columns.available
            for log in logs
        ]
    )
