"""Making estimated probabilities honest: temperature and exploration, a floor, and the error that is left.

Two numbers for all actions, fitted by maximum likelihood on predictions that never saw the event: a temperature
(Guo et al. 2017), and a share of even exploration, because that is what loggers mix in and what a softmax cannot
express. They keep rows summing to 1 and the order of actions, and a few hundred events pin them down. Isotonic
regression, one action at a time, does neither: it needs many events of every action, and it makes exact zeros, which
are fatal where one divides by them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from backcast._arrays import BoolArray, FloatArray, IntArray
from backcast._validation import count
from backcast.diagnostics import Facts
from backcast.errors import LogError, OptionError
from backcast.log import Log
from backcast.propensities._choice_model import fit_choice_model

TINY = 1e-12


FLATTEST, SHARPEST = 0.05, 20.0


BINS = 10


ENOUGH = 10_000  # events that pin two numbers down


class Calibration(NamedTuple):
    """``(1 - e) p_a^b / sum p^b + e / m`` over the m actions that may be chosen.

    ``exponent`` b is one over the temperature; ``exploration`` e is the share of even choice.

    >>> Calibration(exponent=0.5, exploration=0.25).applied(np.array([[0.2, 0.8, 0.0]]))
    array([[0.375, 0.625, 0.   ]])

    By hand: roots are as 1 to 2, so (1/3, 2/3); three quarters of that, and an eighth each.
    """

    exponent: float
    exploration: float

    def applied(self, chances: FloatArray) -> FloatArray:
        """The calibrated probabilities of each row; what was impossible stays so."""
        return (1 - self.exploration) * _tilted(chances, self.exponent) + self.exploration * _even(chances)


AS_PREDICTED = Calibration(exponent=1.0, exploration=0.0)


def fit_calibration(chances: FloatArray, actions: IntArray) -> Calibration:
    """The calibration under which the actions are likeliest.

    >>> coins = np.tile([0.2, 0.8], (30, 1))
    >>> fitted = fit_calibration(coins, np.array([0, 1, 1] * 10))
    >>> fitted.applied(coins[:1]).round(3)
    array([[0.333, 0.667]])
    """
    from scipy.optimize import minimize

    some = slice(None, None, 1 + actions.size // ENOUGH)
    loss = _Loss(chances[some], actions[some])
    bounds = [(np.log(FLATTEST), np.log(SHARPEST)), (0.0, 1.0)]
    # several starts: a sharp softmax with exploration and a flat one without are two hills
    tries: list[Any] = [minimize(loss, start, jac=True, bounds=bounds) for start in ([0.0, 0.05], [1.5, 0.2])]
    best = min(tries, key=lambda found: float(found.fun))
    return Calibration(float(np.exp(best.x[0])), float(best.x[1]))


class _Loss:
    """Mean negative log-likelihood of the actions at (log exponent, exploration), and its gradient."""

    def __init__(self, chances: FloatArray, actions: IntArray) -> None:
        self.possible, self.logs = chances > 0, np.log(np.maximum(chances, TINY))
        self.taken = (np.arange(actions.size), actions)
        self.even = _even(chances)[self.taken]

    def __call__(self, point: FloatArray) -> tuple[float, FloatArray]:
        exponent, exploration = float(np.exp(point[0])), float(point[1])
        powers = np.exp(exponent * self.logs) * self.possible
        tilted = powers / powers.sum(axis=1, keepdims=True)
        own = tilted[self.taken]
        mixed = np.maximum((1 - exploration) * own + exploration * self.even, TINY)
        pull = self.logs[self.taken] - (tilted * self.logs).sum(axis=1)
        by_exponent = (1 - exploration) * own * pull * exponent / mixed
        by_exploration = (self.even - own) / mixed
        return -float(np.log(mixed).mean()), -np.array([by_exponent.mean(), by_exploration.mean()])


def _tilted(chances: FloatArray, exponent: float) -> FloatArray:
    powers = np.where(chances > 0, np.maximum(chances, TINY) ** exponent, 0.0)
    tilted: FloatArray = powers / powers.sum(axis=1, keepdims=True)
    return tilted


def _even(chances: FloatArray) -> FloatArray:
    possible = chances > 0
    even: FloatArray = possible / possible.sum(axis=1, keepdims=True)
    return even


def lift_to_floor(chances: FloatArray, eligible: BoolArray, floor: float) -> FloatArray:
    """Lift eligible actions to the floor; the others of the row give way in proportion.

    >>> lift_to_floor(np.array([[0.0, 0.2, 0.8, 0.0]]), np.array([[True, True, True, False]]), 0.125)
    array([[0.125, 0.175, 0.7  , 0.   ]])
    """
    low = np.zeros(chances.shape, dtype=np.bool_)
    lifted = chances
    # giving way may push another action below the floor: at most K rounds
    for _ in range(chances.shape[1]):
        fresh = eligible & ~low & (lifted < floor)
        if not fresh.any():
            break
        low |= fresh
        free = np.where(low, 0.0, chances)
        total = free.sum(axis=1, keepdims=True)
        share = (1.0 - floor * low.sum(axis=1, keepdims=True)) / np.where(total > 0, total, 1.0)
        lifted = np.where(low, floor, free * share)
    return lifted


def calibration_error(chances: FloatArray, actions: IntArray, eligible: BoolArray) -> float:
    """Average gap between what was predicted and how often it came, over bins of equal size of all predictions.

    >>> calibration_error(np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([0, 1]), np.ones((2, 2), bool))
    0.0
    """
    hits = np.zeros(chances.shape)
    hits[np.arange(actions.size), actions] = 1.0
    predicted, came = chances[eligible], hits[eligible]
    # equal predictions must share a bin, or their order would make up an error
    edges = np.unique(np.quantile(predicted, np.linspace(0, 1, BINS + 1)[1:-1]))
    bins = np.searchsorted(edges, predicted, side="left")
    gaps = np.bincount(bins, weights=predicted - came)
    return float(np.abs(gaps).sum() / predicted.size)


@dataclass(frozen=True)
class PropensityDiagnostics(Facts):
    """How far to believe estimated propensities.

    Attributes
    ----------
    events, actions_seen
        Events of the log, and actions that occur in it.
    smallest, largest
        Range of the propensities.
    share_floored
        Share of the logged actions whose probability was lifted to the floor: below a percent or two is well.
    calibration_error
        Average gap between predicted and observed frequency, over ten bins of all predictions.
    inverse_mean
        ``mean(1/p)`` over the average number of actions that could be chosen: 1 where propensities are right.
    temperature, exploration
        By which predictions were softened (above 1) or sharpened (below 1), and the share of even choice mixed in,
        both averaged over folds.
    gain
        Nats an event by which contexts tell the action better than its frequency does; 0 means they do not.
    """

    events: int
    actions_seen: int
    smallest: float
    largest: float
    share_floored: float
    calibration_error: float
    inverse_mean: float
    temperature: float
    exploration: float
    gain: float


@dataclass(frozen=True, eq=False)
class PropensityEstimate:
    """Estimated probabilities of all actions, those of the logged ones, and how far to believe them.

    Attributes
    ----------
    probabilities
        Of every action at each event, shape ``(n, K)``; rows sum to 1, and actions never seen have 0.
    propensities
        Of the logged actions, shape ``(n,)``.
    floor
        Smallest probability an action that occurs in the log may have where it is eligible.
    diagnostics
        Facts about the fit.
    """

    probabilities: FloatArray
    propensities: FloatArray
    floor: float
    diagnostics: PropensityDiagnostics


def estimate_propensities(
    source: Any,
    actions: Any = None,
    model: Any = None,
    *,
    folds: int = 5,
    floor: float | None = None,
    calibrate: bool = True,
    seed: int = 0,
    **columns: Any,
) -> PropensityEstimate:
    """Estimate with what probability a log's actions were chosen, each event by models that never saw it.

    Parameters
    ----------
    source
        A :class:`backcast.Log` (its own propensities are not looked at), or contexts as a log takes them.
    actions
        The chosen actions, where ``source`` is contexts.
    model
        A scikit-learn classifier with ``predict_proba``; None is a multinomial logistic regression.
    folds
        Parts of the log; each is predicted by a model fitted on the others.
    floor
        Smallest probability of an eligible action; None is 0.01, or a tenth of an even share if that is less.
    calibrate
        Whether to fit a temperature and a share of even exploration on held-out predictions.
    seed
        Of the folds.
    **columns
        ``n_actions``, ``action_labels``, ``available``, as a log takes them.

    Examples
    --------
    >>> coins = estimate_propensities([[0.0]] * 40, actions=[0, 1, 1, 1] * 10)
    >>> coins.propensities[:2].round(2)
    array([0.25, 0.75])
    """
    if actions is None and not isinstance(source, Log):
        raise OptionError("actions are missing; give contexts and actions, or a log")
    log = source if isinstance(source, Log) else _unpriced(source, actions, np.zeros(len(actions)), columns)
    folds = count("folds", folds, low=2)
    if len(log) < 2 * folds:
        raise LogError(f"{len(log)} events are too few to estimate propensities in {folds} folds; use fewer folds")
    eligible = _eligible(log)
    lowest = _floor(floor, eligible)
    parts = balanced_folds(log._actions, folds, np.random.default_rng(seed))
    raw = _held_out(log, model, parts)
    chances, used = _calibrated(raw, log._actions, parts) if calibrate else (raw, AS_PREDICTED)
    return _finished(log, chances, eligible, lowest, used)


def with_estimated_propensities(
    source: Any, actions: Any = None, rewards: Any = None, model: Any = None, **options: Any
) -> Log:
    """A log whose propensities are estimated from itself; every later result says so.

    Parameters
    ----------
    source
        A log whose propensities are not to be trusted, or contexts as a log takes them.
    actions, rewards
        The other columns, where ``source`` is contexts.
    model
        As in :func:`estimate_propensities`.
    **options
        ``folds``, ``floor``, ``calibrate``, ``seed`` of :func:`estimate_propensities`; all else are columns of
        :class:`backcast.Log`: ``n_actions``, ``action_labels``, ``available``, ``times``, ``reward_range``.

    Examples
    --------
    >>> log = with_estimated_propensities([[0.0]] * 40, actions=[0, 1] * 20, rewards=[0, 1] * 20)
    >>> log.propensities_estimated, log.propensities[:2]
    (True, array([0.5, 0.5]))
    """
    columns = {name: value for name, value in options.items() if name not in ("folds", "floor", "calibrate", "seed")}
    if isinstance(source, Log):
        if columns:
            raise OptionError(f"{sorted(columns)[0]} is not an option here; the log has its own columns already")
        log = source
    elif actions is None or rewards is None:
        raise OptionError("actions or rewards are missing; give contexts, actions and rewards, or a log")
    else:
        log = _unpriced(source, actions, rewards, columns)
    own = {name: value for name, value in options.items() if name not in columns}
    found = estimate_propensities(log, None, model, **own)
    return log.replace(_propensities=found.propensities, _logging=found.probabilities, propensities_estimated=True)


def balanced_folds(actions: IntArray, folds: int, rng: np.random.Generator) -> IntArray:
    """A random fold for each event, every action spread evenly: one seen twice is known to all models.

    >>> np.bincount(balanced_folds(np.array([0, 1, 0, 1]), 2, np.random.default_rng(0))).tolist()
    [2, 2]
    """
    shuffled = rng.permutation(actions.size)
    by_action = shuffled[np.argsort(actions[shuffled], kind="stable")]
    parts = np.empty(actions.size, dtype=np.int64)
    parts[by_action] = np.arange(actions.size) % folds
    return parts


def _unpriced(contexts: Any, actions: Any, rewards: Any, columns: dict[str, Any]) -> Log:
    """A checked log of everything but propensities, which are 1 until they are estimated."""
    return Log(contexts, actions, rewards, np.ones(len(rewards)), **columns)


def _eligible(log: Log) -> BoolArray:
    """Which actions may be chosen at each event: available, and seen in the log (or known by their features)."""
    seen = np.bincount(log._actions, minlength=log.n_actions) > 0
    if log.has_action_features:
        seen[:] = True
    if log._available is None:
        return np.broadcast_to(seen, (len(log), log.n_actions))
    return seen & log._available


def _floor(floor: float | None, eligible: BoolArray) -> float:
    most = int(eligible.sum(axis=1).max())
    if floor is None:
        return min(0.01, 0.1 / most)
    if not 0 <= floor < 1 / most:
        raise OptionError(
            f"floor is {floor}; {most} actions may be chosen at once, so it must lie in [0, 1/{most}). "
            "A floor of 0 is allowed, but leaves weights unbounded"
        )
    return float(floor)


def _held_out(log: Log, model: Any, parts: IntArray) -> FloatArray:
    """Predictions for each fold by a model fitted on the others."""
    chances = np.empty((len(log), log.n_actions))
    for fold in range(int(parts.max()) + 1):
        own = parts == fold
        fitted = fit_choice_model(log[~own], model)
        chances[own] = fitted.probabilities(log._contexts[own], None if log._available is None else log._available[own])
    return chances


def _calibrated(raw: FloatArray, actions: IntArray, parts: IntArray) -> tuple[FloatArray, Calibration]:
    """Each fold by the calibration that suits the held-out predictions of the other folds; and their average."""
    honest = np.empty_like(raw)
    used = []
    for fold in range(int(parts.max()) + 1):
        own = parts == fold
        used.append(fit_calibration(raw[~own], actions[~own]))
        honest[own] = used[-1].applied(raw[own])
    return honest, Calibration(*(float(mean) for mean in np.mean(used, axis=0)))


def _finished(
    log: Log, chances: FloatArray, eligible: BoolArray, floor: float, used: Calibration
) -> PropensityEstimate:
    taken = (np.arange(len(log)), log._actions)
    lifted = lift_to_floor(chances, eligible, floor).copy()
    # without a floor an action that only its own fold has seen would be impossible
    propensities = np.maximum(lifted[taken], 1e-12)
    lifted[taken] = propensities
    counts = np.bincount(log._actions, minlength=log.n_actions)
    facts = PropensityDiagnostics(
        events=len(log),
        actions_seen=int((counts > 0).sum()),
        smallest=float(propensities.min()),
        largest=float(propensities.max()),
        share_floored=float((chances[taken] < floor).mean()),
        calibration_error=calibration_error(lifted, log._actions, eligible),
        inverse_mean=float((1 / propensities).mean() / eligible.sum(axis=1).mean()),
        temperature=1 / used.exponent,
        exploration=used.exploration,
        gain=float(np.log(propensities).mean() - np.log(counts[log._actions] / len(log)).mean()),
    )
    return PropensityEstimate(lifted, propensities, floor, facts)
