"""estimate_propensities(): cross-fitting, calibration, floor and diagnostics of missing propensities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from backcast._arrays import BoolArray, FloatArray, IntArray
from backcast._equality import ContentEquality
from backcast._validation import count
from backcast.diagnostics import PrintedDiagnostics
from backcast.errors import LogError, OptionError
from backcast.log import Log, replace_columns
from backcast.propensities._choice_model import fit_choice_model

SMALLEST_PROBABILITY = 1e-12
EXPONENTS = (0.05, 20.0)  # range of the calibration exponent
CALIBRATION_EVENTS = 10_000  # enough to fit two numbers
CALIBRATION_BINS = 10
ESTIMATE_OPTIONS = ("folds", "floor", "calibrate", "seed")


@dataclass(frozen=True, eq=False)
class PropensityDiagnostics(PrintedDiagnostics):
    """How reliable estimated propensities are.

    Attributes
    ----------
    events, actions_seen
        Events of the log, and actions that occur in it.
    smallest, largest
        Range of the propensities.
    share_floored
        Share of the logged actions whose probability was raised to the floor; it should be below one or two percent.
    calibration_error
        Average difference between predicted and observed frequency, over ten bins of all predictions.
    inverse_mean
        ``mean(1/p)`` over the average number of actions that could be chosen: 1 if propensities are right.
    temperature, exploration
        Temperature by which predictions were softened (above 1) or sharpened (below 1), and the share of uniform
        choice mixed in, both averaged over folds.
    gain
        Improvement of the log-likelihood by the contexts over the frequencies of the actions, in nats per event; 0 if
        contexts do not help.
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
class PropensityEstimate(ContentEquality):
    """Estimated probabilities of all actions, of the logged actions, and how reliable they are.

    Attributes
    ----------
    probabilities
        Of every action at each event, shape ``(n, K)``; rows sum to 1, and actions never seen have 0.
    propensities
        Of the logged actions, shape ``(n,)``.
    floor
        Smallest probability of an eligible action that occurs in the log.
    diagnostics
        Diagnostics of the fit.
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
    """Estimate the probabilities with which the actions of a log were chosen, by cross-fitting.

    Parameters
    ----------
    source
        A :class:`backcast.Log` (its propensities are not used), or contexts in any form that a log accepts.
    actions
        The chosen actions, if ``source`` is contexts.
    model
        A scikit-learn classifier with ``predict_proba``; None is a multinomial logistic regression.
    folds
        Number of folds; each is predicted by a model fitted on the others.
    floor
        Smallest probability of an eligible action; None is 0.01, or a tenth of a uniform share if that is less.
    calibrate
        Whether to fit a temperature and a share of uniform exploration on held-out predictions.
    seed
        Seed of the folds.
    **columns
        ``n_actions``, ``action_labels``, ``available``, as for a log.

    Examples
    --------
    >>> coins = estimate_propensities([[0.0]] * 40, actions=[0, 1, 1, 1] * 10)
    >>> coins.propensities[:2].round(2)
    array([0.25, 0.75])
    """
    if isinstance(source, Log):
        log = source
    elif actions is None:
        raise OptionError("actions are missing; give contexts and actions, or a log")
    else:
        columns.pop("times", None)  # estimates are in the order of the arguments, a log with times is not
        log = _log_without_propensities(source, actions, np.zeros(len(actions)), columns)
    folds = count("folds", folds, low=2)
    if len(log) < 2 * folds:
        raise LogError(f"{len(log)} events are too few to estimate propensities in {folds} folds; use fewer folds")
    eligible = _eligible_actions(log)
    floor = _choose_floor(floor, eligible)
    fold_numbers = balanced_folds(log.columns.actions, folds, np.random.default_rng(seed))
    probabilities = _predict_held_out(log, model, fold_numbers)
    calibration = NO_CALIBRATION
    if calibrate:
        probabilities, calibration = _calibrate_held_out(probabilities, log.columns.actions, fold_numbers)
    return _finish_estimate(log, probabilities, eligible, floor, calibration)


def with_estimated_propensities(
    source: Any, actions: Any = None, rewards: Any = None, model: Any = None, **options: Any
) -> Log:
    """Return a log with propensities estimated from itself; all results on it are marked as such.

    Parameters
    ----------
    source
        A log whose propensities are to be replaced, or contexts in any form that a log accepts.
    actions, rewards
        The other columns, if ``source`` is contexts.
    model
        As in :func:`estimate_propensities`.
    **options
        ``folds``, ``floor``, ``calibrate``, ``seed`` of :func:`estimate_propensities`; all others are columns of
        :class:`backcast.Log`: ``n_actions``, ``action_labels``, ``available``, ``times``, ``reward_range``.

    Examples
    --------
    >>> log = with_estimated_propensities([[0.0]] * 40, actions=[0, 1] * 20, rewards=[0, 1] * 20)
    >>> log.propensities_estimated, log.propensities[:2]
    (True, array([0.5, 0.5]))
    """
    columns = {name: value for name, value in options.items() if name not in ESTIMATE_OPTIONS}
    estimate_options = {name: value for name, value in options.items() if name in ESTIMATE_OPTIONS}
    if isinstance(source, Log):
        if columns:
            raise OptionError(f"{min(columns)} is not an option here; the log already has its columns")
        log = source
    elif actions is None or rewards is None:
        raise OptionError("actions or rewards are missing; give contexts, actions and rewards, or a log")
    else:
        log = _log_without_propensities(source, actions, rewards, columns)
    estimate = estimate_propensities(log, None, model, **estimate_options)
    return replace_columns(
        log,
        propensities=estimate.propensities,
        logging_probabilities=estimate.probabilities,
        propensities_estimated=True,
    )


def _log_without_propensities(contexts: Any, actions: Any, rewards: Any, columns: dict[str, Any]) -> Log:
    """Return a validated log whose propensities are 1 until they are estimated."""
    return Log(contexts, actions, rewards, np.ones(len(rewards)), **columns)


def _eligible_actions(log: Log) -> BoolArray:
    """Return which actions may be chosen at each event: available, and seen in the log (or known by their features)."""
    seen = np.bincount(log.columns.actions, minlength=log.n_actions) > 0
    if log.has_action_features:
        seen[:] = True
    if log.columns.available is None:
        return np.broadcast_to(seen, (len(log), log.n_actions))
    return seen & log.columns.available


def _choose_floor(floor: float | None, eligible: BoolArray) -> float:
    most = int(eligible.sum(axis=1).max())
    if floor is None:
        return min(0.01, 0.1 / most)
    if not 0 <= floor < 1 / most:
        raise OptionError(
            f"floor is {floor}; {most} actions may be chosen at once, so it must lie in [0, 1/{most}). "
            "A floor of 0 is allowed, but weights are then unbounded"
        )
    return float(floor)


def balanced_folds(actions: IntArray, folds: int, rng: np.random.Generator) -> IntArray:
    """Assign events to folds at random, each action evenly, so that all models know an action seen twice.

    >>> np.bincount(balanced_folds(np.array([0, 1, 0, 1]), 2, np.random.default_rng(0))).tolist()
    [2, 2]
    """
    shuffled = rng.permutation(actions.size)
    by_action = shuffled[np.argsort(actions[shuffled], kind="stable")]
    fold_numbers = np.empty(actions.size, dtype=np.int64)
    fold_numbers[by_action] = np.arange(actions.size) % folds
    return fold_numbers


def _predict_held_out(log: Log, model: Any, fold_numbers: IntArray) -> FloatArray:
    """Predict each fold by a model fitted on the others."""
    probabilities = np.empty((len(log), log.n_actions))
    for fold in range(int(fold_numbers.max()) + 1):
        rows = fold_numbers == fold
        available = None if log.columns.available is None else log.columns.available[rows]
        probabilities[rows] = fit_choice_model(log[~rows], model).probabilities(log.columns.contexts[rows], available)
    return probabilities


def _calibrate_held_out(
    predicted: FloatArray, actions: IntArray, fold_numbers: IntArray
) -> tuple[FloatArray, Calibration]:
    """Calibrate each fold on the held-out predictions of the other folds; return also the mean calibration."""
    calibrated = np.empty_like(predicted)
    calibrations = []
    for fold in range(int(fold_numbers.max()) + 1):
        rows = fold_numbers == fold
        calibrations.append(fit_calibration(predicted[~rows], actions[~rows]))
        calibrated[rows] = calibrations[-1].apply(predicted[rows])
    return calibrated, Calibration(*(float(mean) for mean in np.mean(calibrations, axis=0)))


def _finish_estimate(
    log: Log, probabilities: FloatArray, eligible: BoolArray, floor: float, calibration: Calibration
) -> PropensityEstimate:
    """Raise probabilities to the floor and compute the diagnostics."""
    taken = (np.arange(len(log)), log.columns.actions)
    raised = raise_to_floor(probabilities, eligible, floor).copy()
    # without a floor, an action that occurs in a single fold would have probability 0 there
    propensities = np.maximum(raised[taken], SMALLEST_PROBABILITY)
    raised[taken] = propensities
    counts = np.bincount(log.columns.actions, minlength=log.n_actions)
    diagnostics = PropensityDiagnostics(
        events=len(log),
        actions_seen=int((counts > 0).sum()),
        smallest=float(propensities.min()),
        largest=float(propensities.max()),
        share_floored=float((probabilities[taken] < floor).mean()),
        calibration_error=calibration_error(raised, log.columns.actions, eligible),
        inverse_mean=float((1 / propensities).mean() / eligible.sum(axis=1).mean()),
        temperature=1 / calibration.exponent,
        exploration=calibration.exploration,
        gain=float(np.log(propensities).mean() - np.log(counts[log.columns.actions] / len(log)).mean()),
    )
    return PropensityEstimate(raised, propensities, floor, diagnostics)


class Calibration(NamedTuple):
    """``(1 - e) p_a^b / sum p^b + e / m`` over the m actions that may be chosen.

    ``exponent`` b is one over the temperature (Guo et al. 2017); ``exploration`` e is a share of uniform choice, which
    loggers mix in and a softmax cannot express. Both keep the order of actions, and a few hundred events determine
    them. Isotonic regression per action needs many events of every action, and yields zeros, by which weights would
    divide.

    >>> Calibration(exponent=0.5, exploration=0.25).apply(np.array([[0.2, 0.8, 0.0]]))
    array([[0.375, 0.625, 0.   ]])

    By hand: the square roots are in the ratio 1 to 2, so (1/3, 2/3); three quarters of that, and an eighth each.
    """

    exponent: float
    exploration: float

    def apply(self, probabilities: FloatArray) -> FloatArray:
        """Return the calibrated probabilities of each row; probabilities of 0 stay 0."""
        positive = probabilities > 0
        powers = np.where(positive, np.maximum(probabilities, SMALLEST_PROBABILITY) ** self.exponent, 0.0)
        tilted = powers / powers.sum(axis=1, keepdims=True)
        uniform = positive / positive.sum(axis=1, keepdims=True)
        calibrated: FloatArray = (1 - self.exploration) * tilted + self.exploration * uniform
        return calibrated


NO_CALIBRATION = Calibration(exponent=1.0, exploration=0.0)


def fit_calibration(probabilities: FloatArray, actions: IntArray) -> Calibration:
    """Fit the calibration by maximum likelihood.

    >>> coins = np.tile([0.2, 0.8], (30, 1))
    >>> calibration = fit_calibration(coins, np.array([0, 1, 1] * 10))
    >>> calibration.apply(coins[:1]).round(3)
    array([[0.333, 0.667]])
    """
    from scipy.optimize import minimize

    sample = slice(None, None, 1 + actions.size // CALIBRATION_EVENTS)
    loss = _CalibrationLoss(probabilities[sample], actions[sample])
    bounds = [(np.log(EXPONENTS[0]), np.log(EXPONENTS[1])), (0.0, 1.0)]
    # two starts: a sharp softmax with exploration and a flat one without are different local optima
    optima: list[Any] = [minimize(loss, start, jac=True, bounds=bounds) for start in ([0.0, 0.05], [1.5, 0.2])]
    best = min(optima, key=lambda optimum: float(optimum.fun))
    return Calibration(float(np.exp(best.x[0])), float(best.x[1]))


class _CalibrationLoss:
    """Mean negative log-likelihood of the actions at (log exponent, exploration), and its gradient."""

    def __init__(self, probabilities: FloatArray, actions: IntArray) -> None:
        self.positive = probabilities > 0
        self.logs = np.log(np.maximum(probabilities, SMALLEST_PROBABILITY))
        self.taken = (np.arange(actions.size), actions)
        self.uniform = (self.positive / self.positive.sum(axis=1, keepdims=True))[self.taken]

    def __call__(self, point: FloatArray) -> tuple[float, FloatArray]:
        exponent, exploration = float(np.exp(point[0])), float(point[1])
        powers = np.exp(exponent * self.logs) * self.positive
        tilted = powers / powers.sum(axis=1, keepdims=True)
        chosen = tilted[self.taken]
        mixed = np.maximum((1 - exploration) * chosen + exploration * self.uniform, SMALLEST_PROBABILITY)
        slope = self.logs[self.taken] - (tilted * self.logs).sum(axis=1)
        by_exponent = (1 - exploration) * chosen * slope * exponent / mixed
        by_exploration = (self.uniform - chosen) / mixed
        return -float(np.log(mixed).mean()), -np.array([by_exponent.mean(), by_exploration.mean()])


def raise_to_floor(probabilities: FloatArray, eligible: BoolArray, floor: float) -> FloatArray:
    """Raise eligible actions to the floor; the other actions of the row are reduced in proportion.

    >>> raise_to_floor(np.array([[0.0, 0.2, 0.8, 0.0]]), np.array([[True, True, True, False]]), 0.125)
    array([[0.125, 0.175, 0.7  , 0.   ]])
    """
    floored = np.zeros(probabilities.shape, dtype=np.bool_)
    raised = probabilities
    # reducing others may push them below the floor: at most K rounds
    for _ in range(probabilities.shape[1]):
        below = eligible & ~floored & (raised < floor)
        if not below.any():
            break
        floored |= below
        free = np.where(floored, 0.0, probabilities)
        total = free.sum(axis=1, keepdims=True)
        share = (1.0 - floor * floored.sum(axis=1, keepdims=True)) / np.where(total > 0, total, 1.0)
        raised = np.where(floored, floor, free * share)
    return raised


def calibration_error(probabilities: FloatArray, actions: IntArray, eligible: BoolArray) -> float:
    """Return the average difference between predicted and observed frequency, over bins of all predictions.

    >>> calibration_error(np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([0, 1]), np.ones((2, 2), bool))
    0.0
    """
    hits = np.zeros(probabilities.shape)
    hits[np.arange(actions.size), actions] = 1.0
    predicted, observed = probabilities[eligible], hits[eligible]
    # equal predictions must share a bin, otherwise their order would create an error
    edges = np.unique(np.quantile(predicted, np.linspace(0, 1, CALIBRATION_BINS + 1)[1:-1]))
    bins = np.searchsorted(edges, predicted, side="left")
    differences = np.bincount(bins, weights=predicted - observed)
    return float(np.abs(differences).sum() / predicted.size)
