"""Policies that do not learn: Uniform, Fixed, FromScores and Logged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np

from backcast._arrays import BoolArray, Contexts, FloatArray, IntArray
from backcast._kernels.contexts import mask_of
from backcast._parameters import Parametrized
from backcast._validation import share
from backcast.errors import OptionError, PolicyError, did_you_mean
from backcast.log import Log
from backcast.policies._choice import epsilon_greedy_rows


def greedy_probabilities(scores: FloatArray, epsilon: float, available: BoolArray | None = None) -> FloatArray:
    """Return epsilon-greedy probabilities for a block of scores; ties share equally.

    >>> greedy_probabilities(np.array([[0.0, 2.0]]), epsilon=0.5)
    array([[0.25, 0.75]])
    """
    out = np.array(scores, dtype=np.float64, ndmin=2, order="C")
    epsilon_greedy_rows(out, epsilon, mask_of(available))
    return out


@final
class Uniform(Parametrized):
    """Every eligible action with the same probability.

    Examples
    --------
    >>> policy = Uniform()
    >>> policy.start(4, 1, np.random.default_rng(0))
    >>> policy.probabilities(np.zeros((1, 1)))
    array([[0.25, 0.25, 0.25, 0.25]])
    """

    def __init__(self) -> None:
        self._n_actions: int | None = None

    def __repr__(self) -> str:
        return "Uniform()"

    def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
        """Store the number of actions."""
        self._n_actions = n_actions

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        """Return one over the number of eligible actions."""
        if available is not None:
            return np.asarray(available / available.sum(axis=1, keepdims=True))
        if self._n_actions is None:
            raise PolicyError("Uniform() has not been started; call start(n_actions, n_features, rng) first")
        return np.full((contexts.shape[0], self._n_actions), 1.0 / self._n_actions)


@final
class Fixed(Parametrized):
    """A policy with constant probabilities, or with probabilities that are a given function of the contexts.

    Constant probabilities are a vector in the order of the log's actions, one label for a policy that always takes
    that action, or probabilities by label, in which labels left out have probability 0. If actions are unavailable,
    they are renormalised over the others. A function must return the ``(n, K)`` probabilities of all actions.

    Examples
    --------
    >>> Fixed([0.25, 0.75]).probabilities(np.zeros((2, 1)))
    array([[0.25, 0.75],
           [0.25, 0.75]])
    >>> Fixed(lambda x: np.column_stack([x[:, 0] > 0, x[:, 0] <= 0])).probabilities(np.array([[5.0]]))
    array([[1., 0.]])
    >>> policy = Fixed({"mail": 0.25, "none": 0.75})
    >>> policy.use_labels(("call", "mail", "none"))  # evaluators do this
    >>> policy.probabilities(np.zeros((1, 1)))
    array([[0.  , 0.25, 0.75]])
    """

    def __init__(self, probabilities: Any) -> None:
        self._probabilities: Any = probabilities
        self._vector: FloatArray | None = None
        if callable(probabilities):
            return
        if isinstance(probabilities, str):
            probabilities = self._probabilities = {probabilities: 1.0}
        by_label = isinstance(probabilities, Mapping)
        try:
            vector = np.asarray(list(probabilities.values()) if by_label else probabilities, dtype=np.float64)
        except (TypeError, ValueError) as problem:
            raise OptionError(
                f"Fixed({probabilities!r}): give K probabilities, a label, probabilities by label, or a function: "
                f"{problem}"
            ) from None
        if vector.ndim == 0:
            raise OptionError(
                f"Fixed({probabilities!r}): a policy needs K probabilities, as in Fixed([0.5, 0.5]); to always take "
                f"action {probabilities!r} write Fixed({{{probabilities!r}: 1}}); for a fixed acceptance multiplier "
                f"write DRns(acceptance={probabilities!r})"
            )
        if vector.ndim != 1 or (vector < 0).any() or not abs(vector.sum() - 1) <= 1e-6:
            raise OptionError(f"Fixed({probabilities!r}): give K probabilities >= 0 that sum to 1, or a function")
        if abs(vector.sum() - 1) > 1e-9:  # rounded, as float32 is
            vector = vector / vector.sum()
        if not by_label:
            self._probabilities = self._vector = vector

    def __repr__(self) -> str:
        if callable(self._probabilities):
            return f"Fixed({getattr(self._probabilities, '__name__', 'function')})"
        if isinstance(self._probabilities, Mapping):
            return f"Fixed({self._probabilities!r})"
        return f"Fixed({np.array2string(self._probabilities, threshold=8, separator=', ')})"

    def use_labels(self, labels: tuple[Any, ...]) -> None:
        """Put probabilities by label in the order of the labels, or check that there is one for each."""
        if isinstance(self._probabilities, Mapping):
            for label in self._probabilities:
                if label not in labels:
                    raise PolicyError(
                        f"{self!r}: the log has no action {label!r}{did_you_mean(str(label), map(str, labels))} "
                        f"Its actions are {list_labels(labels)}"
                    )
            self._vector = np.array([float(self._probabilities.get(label, 0.0)) for label in labels])
        elif self._vector is not None and self._vector.size != len(labels):
            raise PolicyError(
                f"{self!r} has {self._vector.size} probabilities, and the log has {len(labels)} actions: "
                f"{list_labels(labels)}. Give one for each, or probabilities by label: Fixed({{{labels[0]!r}: 1}})"
            )

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        """Return the constant probabilities, or those of the function."""
        if callable(self._probabilities):
            return np.asarray(self._probabilities(contexts), dtype=np.float64)
        if self._vector is None:
            raise PolicyError(f"{self!r} needs the labels of the actions; call use_labels(log.action_labels) first")
        block = np.tile(self._vector, (contexts.shape[0], 1))
        if available is None:
            return block
        block = block * available
        total = block.sum(axis=1, keepdims=True)
        # if all available actions have probability 0, the choice among them is uniform
        return np.where(total > 0, block / np.where(total > 0, total, 1.0), available / available.sum(1, keepdims=True))


def list_labels(labels: Sequence[Any]) -> str:
    """Return at most eight labels as text.

    >>> list_labels(("mail", "none")), list_labels(range(20))
    ("'mail', 'none'", '0, 1, 2, 3, 4, 5, 6, 7, ... (20 in all)')
    """
    shown = ", ".join(repr(label) for label in labels[:8])
    return shown if len(labels) <= 8 else f"{shown}, ... ({len(labels)} in all)"


@final
class FromScores(Parametrized):
    """Epsilon-greedy over fixed scores: a function of the contexts, or a fitted scikit-learn classifier.

    A function returns one column of scores per action, in the order of the log's labels. The columns of a classifier
    are put in that order by its ``classes_``, which must be the labels.

    Examples
    --------
    >>> FromScores(lambda x: np.column_stack([x[:, 0], -x[:, 0]]), epsilon=0.5).probabilities(np.array([[3.0]]))
    array([[0.75, 0.25]])
    """

    def __init__(self, scores: Any, *, epsilon: float = 0.0) -> None:
        function = getattr(scores, "predict_proba", scores)
        if not callable(function):
            raise OptionError(f"FromScores({scores!r}): give a function of the contexts or a fitted classifier")
        self._scores = scores
        self._function: Callable[[Contexts], Any] = function
        self._classes = None if function is scores else getattr(scores, "classes_", None)
        self._columns: IntArray | None = None
        self.epsilon = share("epsilon", epsilon)

    def __sklearn_clone__(self) -> FromScores:
        # by default the classifier would be cloned, and so not be fitted any more
        return FromScores(self._scores, epsilon=self.epsilon)

    def __repr__(self) -> str:
        owner = getattr(self._function, "__self__", self._function)
        return f"FromScores({getattr(owner, '__name__', type(owner).__name__)}, epsilon={self.epsilon:g})"

    def use_labels(self, labels: tuple[Any, ...]) -> None:
        """Find the column of each action among the classes of the classifier."""
        if self._classes is None:
            return
        classes = np.asarray(self._classes).tolist()
        if len(classes) != len(labels) or set(classes) != set(labels):
            raise PolicyError(
                f"{self!r}: the classes of the classifier are {list_labels(classes)}, and the actions of the log are "
                f"{list_labels(labels)}. Fit it on the labels of the log, or give FromScores a function that returns "
                "one column per action in the order of log.action_labels"
            )
        self._columns = np.array([classes.index(label) for label in labels])

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        """Return the epsilon-greedy probabilities of the scores."""
        scores = np.asarray(self._function(contexts), dtype=np.float64)
        if self._columns is not None:
            scores = scores[:, self._columns]
        return greedy_probabilities(scores, self.epsilon, available)


@final
class Logged(Parametrized):
    """The logging policy: its recorded probabilities, or a function of the contexts.

    With no argument it is the logger of any log: :func:`backcast.evaluate` returns the mean of the logged rewards.
    Evaluators that need its probabilities of all actions read the ``logging_probabilities`` of the log. An ``(n, K)``
    array is read by row number.

    Examples
    --------
    >>> log = Log([[0.0], [1.0]], actions=[1, 0], rewards=[0, 1], propensities=[0.75, 0.5], n_actions=2)
    >>> Logged(np.array([[0.25, 0.75], [0.5, 0.5]])).probabilities_of(log[1:])
    array([[0.5, 0.5]])
    """

    def __init__(self, source: Any = None) -> None:
        self._source: Any = source if source is None or callable(source) else np.asarray(source, dtype=np.float64)

    def __repr__(self) -> str:
        if callable(self._source):
            return f"Logged({getattr(self._source, '__name__', 'function')})"
        return "Logged()" if self._source is None else f"Logged(array of {len(self._source):,} rows)"

    @property
    def repeats_log(self) -> bool:
        """Whether the policy takes every action of the log as it was taken, with the logged propensity."""
        return self._source is None

    def probabilities_of(self, log: Log) -> FloatArray:
        """Return the logger's probabilities of all actions at these events."""
        if callable(self._source):
            return self.probabilities(log.contexts, log.available)
        if self._source is not None:
            if log.rows.size and log.rows.max() >= len(self._source):
                raise PolicyError(
                    f"Logged was given {len(self._source)} rows of probabilities; the log has row {log.rows.max()}"
                )
            return np.asarray(self._source[log.rows])
        if log.logging_probabilities is None:
            raise PolicyError(
                "Logged() needs the probabilities of all actions here and this log records only those of the logged "
                "ones; leave the evaluator out for the mean of the logged rewards, pass logging_probabilities to the "
                "log, or use Logged(function) or Logged(array)"
            )
        return log.logging_probabilities

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        """Return the probabilities of the logger's function at these contexts."""
        if not callable(self._source):
            raise PolicyError(
                "Logged() without a function is defined only for the events of the log; use Logged(function)"
            )
        return np.asarray(self._source(contexts), dtype=np.float64)
