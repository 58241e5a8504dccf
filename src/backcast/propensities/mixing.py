"""Logs of several known loggers as one: every event weighed by what any of them might have done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from backcast._arrays import BoolArray, Contexts, FloatArray, is_sparse
from backcast._log_validation import EncodedActions
from backcast.errors import LogError, OptionError
from backcast.log import Log

TOLERANCE = 1e-6


def balanced_probabilities(tables: Sequence[FloatArray], sizes: Sequence[int]) -> FloatArray:
    """``sum_j (n_j / n) mu_j(a|x)``: the chance that an event of the union shows this action (Veach, Guibas 1995).

    >>> balanced_probabilities([np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]])], sizes=[1, 3])
    array([[0.625, 0.375]])
    """
    total = sum(sizes)
    mixed = np.zeros_like(tables[0])
    for table, size in zip(tables, sizes, strict=True):
        mixed += size / total * table
    return mixed


def mix_logs(logs: Sequence[Log], loggers: Sequence[Any]) -> Log:
    """One log from several, balanced over their loggers.

    Weighing each event by its own logger's probability is unbiased too, but an event that its own logger took rarely
    weighs much even where another logger took it often. The balanced probability of the union removes that: its
    variance is never larger (Agarwal, Basu, Schnabel, Joachims 2017). The contexts of all logs must come from the
    same law, and the loggers must be known and fixed.

    Parameters
    ----------
    logs
        Logs with the same action labels and features.
    loggers
        One for each log: a function from contexts to ``(n, K)`` probabilities, a policy that never learns, or an
        array of them for *all* events, the logs end to end.

    Examples
    --------
    >>> careful = Log(None, actions=[0, 1], rewards=[0, 1], propensities=[0.75, 0.25])
    >>> bold = Log(None, actions=[0, 1], rewards=[0, 1], propensities=[0.25, 0.75])
    >>> mixed = mix_logs([careful, bold], [np.tile([0.75, 0.25], (4, 1)), np.tile([0.25, 0.75], (4, 1))])
    >>> mixed.propensities
    array([0.5, 0.5, 0.5, 0.5])
    """
    logs, loggers = list(logs), list(loggers)
    _check_alike(logs, loggers)
    contexts = _end_to_end([log._contexts for log in logs])
    available = _masks(logs)
    sizes = [len(log) for log in logs]
    shape = (sum(sizes), logs[0].n_actions)
    tables = [_table(logger, contexts, available, shape, place) for place, logger in enumerate(loggers)]
    _check_own(logs, tables)
    actions = np.concatenate([log._actions for log in logs])
    mixed = balanced_probabilities(tables, sizes)
    union = Log(
        contexts,
        EncodedActions(actions, logs[0].action_labels),
        np.concatenate([log._rewards for log in logs]),
        mixed[np.arange(actions.size), actions],
        available=available,
        times=_times(logs),
        reward_range=_range(logs),
        logging_probabilities=mixed,
    )
    return union.replace(propensities_estimated=any(log.propensities_estimated for log in logs))


def _check_alike(logs: list[Log], loggers: list[Any]) -> None:
    if not logs or len(logs) != len(loggers):
        raise OptionError(f"{len(logs)} logs and {len(loggers)} loggers; give at least one log, and a logger for each")
    for place, log in enumerate(logs):
        if log.action_labels != logs[0].action_labels:
            raise LogError(f"log {place} has other action labels than log 0; read all of them with one action_labels")
        if log._contexts.shape[1:] != logs[0]._contexts.shape[1:]:
            raise LogError(
                f"log {place} has contexts of shape {log._contexts.shape}, log 0 {logs[0]._contexts.shape}; "
                "all logs need the same features"
            )


def _table(
    logger: Any, contexts: Contexts, available: BoolArray | None, shape: tuple[int, int], place: int
) -> FloatArray:
    """What one logger gives to every action at every event of the union."""
    if callable(getattr(logger, "learn", None)):
        raise OptionError(f"logger {place} learns; balancing needs loggers that are known and fixed")
    if callable(getattr(logger, "probabilities", None)):
        raw = logger.probabilities(contexts, available)
    else:
        raw = logger(contexts) if callable(logger) else logger
    table = np.asarray(raw, dtype=np.float64)
    if table.shape != shape:
        raise OptionError(
            f"logger {place} gives probabilities of shape {table.shape}; expected {shape}: every action at every event "
            "of all logs end to end, not of its own alone"
        )
    wrong = ~((table >= 0).all(axis=1) & (np.abs(table.sum(axis=1) - 1) <= TOLERANCE))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise OptionError(f"logger {place}, row {row}: {table[row].tolist()}; probabilities must be >= 0 and sum to 1")
    return table


def _check_own(logs: list[Log], tables: list[FloatArray]) -> None:
    """Refuse a logger that contradicts the propensities of its own log: it is probably another log's."""
    start = 0
    for place, (log, table) in enumerate(zip(logs, tables, strict=True)):
        own = table[start + np.arange(len(log)), log._actions]
        start += len(log)
        differ = np.abs(own - log._propensities) > TOLERANCE
        if differ.any() and not log.propensities_estimated:
            row = int(np.flatnonzero(differ)[0])
            raise LogError(
                f"row {int(log._rows[row])} of log {place}: propensity is {log._propensities[row]:g} but logger "
                f"{place} gives the logged action {own[row]:g}; are the loggers in the order of their logs?"
            )


def _end_to_end(parts: list[Contexts]) -> Contexts:
    if any(is_sparse(part) for part in parts):
        import scipy.sparse

        blocks: Any = parts
        return scipy.sparse.csr_array(scipy.sparse.vstack(blocks))
    return np.concatenate([np.asarray(part) for part in parts])


def _masks(logs: list[Log]) -> BoolArray | None:
    if all(log._available is None for log in logs):
        return None
    full = [np.ones((len(log), log.n_actions), bool) if log._available is None else log._available for log in logs]
    return np.concatenate(full)


def _times(logs: list[Log]) -> npt.NDArray[Any] | None:
    known = [log._times for log in logs if log._times is not None]
    return np.concatenate(known) if len(known) == len(logs) else None


def _range(logs: list[Log]) -> tuple[float, float] | None:
    known = [log.reward_range for log in logs if log.reward_range is not None]
    if len(known) < len(logs):
        return None
    return min(low for low, _ in known), max(high for _, high in known)
