"""search(): the best of many settings of a policy, and its value on events that did not choose it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Literal

from backcast._auto import Choice, resolve_as_fixed, resolve_by_kind, resolve_evaluator, simulates_histories
from backcast._equality import ContentEquality
from backcast._format import format_interval, format_number, format_percent, join_names
from backcast._horizon import resolve_horizon
from backcast._parallel.jobs import Execution
from backcast._parallel.time_limit import limit_calls
from backcast._progress import show_progress
from backcast._racing import Race
from backcast._request import (
    AnyLog,
    AnyRewardModel,
    EvaluationRequest,
    Evaluator,
    as_log,
    check_request,
)
from backcast._selection import Selection
from backcast._serialization import to_json
from backcast._training_split import TrainingSplit
from backcast._validation import count
from backcast.checks.policy import probe_policy
from backcast.errors import OptionError
from backcast.estimate import Difference, Estimate
from backcast.evaluation import FIRST_CALLS
from backcast.policies._calls import describe
from backcast.policies.base import is_learning
from backcast.policies.wrappers import WarmStart
from backcast.provenance import describe_object


@dataclass(frozen=True, eq=False)
class Candidate(ContentEquality):
    """One setting of a search.

    Attributes
    ----------
    name
        Its name in tables.
    parameters
        Its parameters in the grid; empty if policies were given.
    value
        Its value in the search, on the events that chose the best; the best one's is optimistic.
    difference
        How much more it earns than the best, with an interval that holds for all settings together; None for the best.
    stage
        Stage of the race after which it was dropped; None for the best, and if there was no race.
    passes
        Passes of it in the race.
    share_won
        Share of the folds in which it was chosen, by the other folds.
    """

    name: str
    parameters: dict[str, Any]
    value: float
    difference: Difference | None
    stage: int | None
    passes: int
    share_won: float


@dataclass(frozen=True, eq=False)
class SearchResult(ContentEquality):
    """The best of many settings.

    Attributes
    ----------
    name, policy
        The best setting.
    estimate
        Its value, from events that did not choose it: in turn each fold of the events is left out, the best setting on
        the others is found, and its value on that fold counts; this for 20 partitions into folds. If folds choose
        different settings, the value is that of choosing, not of one setting, and its error that of a jackknife.
    candidates
        All settings, best first.
    folds
        Number of folds.
    passes
        Passes of single policies in the race; the evaluation of the best comes on top.
    notes
        Sentences a reader must know.
    """

    name: str
    policy: Any = field(compare=False)
    estimate: Estimate
    candidates: tuple[Candidate, ...]
    folds: int
    passes: int
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> Candidate:
        """The best setting among the candidates."""
        return self.candidates[0]

    def __str__(self) -> str:
        interval = self.estimate.interval
        shown = "" if interval is None else f", {100 * interval.level:g} % interval {format_interval(interval)}"
        lines = [f"{self.name}: {self.estimate.value:.4g} per round{shown}"]
        width = max(len(candidate.name) for candidate in self.candidates)
        for candidate in self.candidates:
            gap = candidate.difference
            against = "best" if gap is None else f"{gap.value:+.4g} ({format_interval(gap.interval)})"
            where = "" if candidate.stage is None else f", dropped after stage {candidate.stage}"
            won = f"; chosen in {format_percent(candidate.share_won)} of folds" if candidate.share_won else ""
            lines.append(f"  {candidate.name:<{width}}  {format_number(candidate.value):>8}  {against}{where}{won}")
        return "\n".join([*lines, *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings, lists and dicts, for JSON."""
        return {
            "best": self.name,
            "policy": describe_object(self.policy),
            "estimate": self.estimate.to_dict(),
            "candidates": to_json(self.candidates),
            "folds": self.folds,
            "passes": self.passes,
            "notes": list(self.notes),
        }

    def to_frame(self) -> Any:
        """Return one row per candidate as an Arrow table, best first.

        Columns: ``name``; one per parameter of the grid, under its name (``param_`` before it if another column has
        it); ``value``; ``difference`` to the best, 0 for the best itself, with its interval ``low`` and ``high``;
        ``stage``, ``passes`` and ``share_won`` (see :class:`Candidate`).
        """
        from backcast.report.frames import search_frame

        return search_frame(self)


def search(
    log: AnyLog,
    policies: Any,
    grid: Mapping[str, Sequence[Any]] | None = None,
    *,
    evaluator: Evaluator | Literal["auto"] = "auto",
    reward_model: AnyRewardModel | None = None,
    horizon: int | str | None = None,
    level: float = 0.95,
    seed: int = 0,
    folds: int = 5,
    exchangeable: bool | None = None,
    n_jobs: int | None = None,
    time_limit: float | None = None,
    progress: bool | Callable[[int], None] | None = None,
) -> SearchResult:
    """Find the best of many settings of a policy, or of many policies, and its value on events that did not choose it.

    Learning policies on an exchangeable log in memory run a race on common passes: few for all, more for those that
    lead. In all other cases every setting is evaluated once.

    Parameters
    ----------
    log
        A :class:`backcast.Log`, or a stream of parts from :func:`backcast.scan_log`.
    policies
        A class of policies or a policy, whose parameters the grid varies; or a list of policies, or a dict by name.
    grid
        Values to try by parameter, in all combinations; ``policy__alpha`` is a parameter of a wrapped policy.
    evaluator, reward_model, horizon, level, seed, exchangeable, n_jobs, time_limit, progress
        As for :func:`backcast.evaluate`. Learning policies need a horizon.
    folds
        Folds of the events in the value of the best setting, at least 2.

    Examples
    --------
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(None, actions=[0, 1] * 50, rewards=[0, 1] * 50, propensities=[0.5] * 100, reward_range=(0, 1))
    >>> best = search(log, {"first": Fixed([1, 0]), "half": Fixed([0.5, 0.5]), "second": Fixed([0, 1])})
    >>> best.name, best.estimate.value, best.best.share_won
    ('second', 1.0, 1.0)
    """
    candidates, parameters = make_candidates(policies, grid)
    check_request(
        candidates.values(),
        level=level,
        horizon=horizon,
        seed=seed,
        replicates="default",
        exchangeable=exchangeable,
        n_jobs=n_jobs,
        time_limit=time_limit,
    )
    count("folds", folds, 2)
    if horizon is None and any(map(is_learning, candidates.values())):
        raise OptionError("the policies learn, so their value depends on the number of rounds; give horizon=T")
    log, running, split = as_log(log), dict(candidates), None
    rounds, horizon_notes = resolve_horizon(log, horizon)
    if any(isinstance(policy, WarmStart) for policy in candidates.values()):
        split = TrainingSplit.of(log, candidates)
        log, running = split.log, split.policies
    arguments = {"evaluator": evaluator, "reward_model": reward_model, "horizon": horizon, "level": level}
    request = EvaluationRequest(
        log=log,
        policy=None,
        reward_model=reward_model,
        horizon=rounds,
        level=level,
        seed=seed,
        replicates="default",
        execution=Execution(n_jobs, time_limit),
        arguments={**arguments, "interval": None, "seed": seed, "replicates": "default", "exchangeable": exchangeable},
    )
    fixed = [name for name, policy in running.items() if not is_learning(policy)]
    choices, notes = _resolve(evaluator, request, running, fixed, exchangeable)
    with limit_calls(time_limit, FIRST_CALLS):
        for policy in running.values():
            probe_policy(policy, log, seed)
    with show_progress(log, progress) as callbacks:
        selection = Selection(running, choices, seed, folds, callbacks.on_progress)
        selection.run()
        estimate, shares = selection.estimate_winner()
    winner = selection.winner
    if split is not None:
        estimate, notes = split.complete(estimate, winner), (*notes, *split.notes())
    gaps = selection.differences(level)
    ordered = sorted(candidates, key=lambda name: (name != winner, -selection.values[name]))
    rows = tuple(
        Candidate(
            name,
            parameters.get(name, {}),
            selection.values[name],
            gaps.get(name),
            selection.stage_of(name),
            selection.passes_of(name),
            float(shares[name]),
        )
        for name in ordered
    )
    notes = (*horizon_notes, *notes, *_notes(winner, rows, selection.race))
    estimate = replace(estimate, notes=(*notes, *estimate.notes))
    return SearchResult(
        winner, candidates[winner], estimate, rows, folds, selection.race.passes if selection.race else 0, notes
    )


def make_candidates(
    policies: Any, grid: Mapping[str, Sequence[Any]] | None
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return policies by name, and the parameters of each in the grid.

    >>> from backcast.policies.linear import LinUCB
    >>> make_candidates(LinUCB, {"alpha": [0.5, 1.0]})[1]
    {'LinUCB(alpha=0.5)': {'alpha': 0.5}, 'LinUCB(alpha=1.0)': {'alpha': 1.0}}
    """
    if isinstance(policies, Mapping) or (isinstance(policies, Iterable) and not isinstance(policies, str)):
        if grid is not None:
            raise OptionError("a grid varies one policy; give a class or a policy with it, or a list without a grid")
        named = policies.items() if isinstance(policies, Mapping) else ((describe(each), each) for each in policies)
        pairs: list[tuple[str, Any, dict[str, Any]]] = [(str(name), policy, {}) for name, policy in named]
    else:
        pairs = [(*_vary(policies, values), values) for values in _combinations(policies, grid)]
    candidates = {name: policy for name, policy, _ in pairs}
    if len(candidates) < len(pairs):
        raise OptionError("two settings are the same; give each once, or a dict with different names")
    if len(candidates) < 2:
        raise OptionError(f"{len(candidates)} settings given; a search needs at least two")
    return candidates, {name: values for name, _, values in pairs if values}


def _combinations(policy: Any, grid: Any) -> list[dict[str, Any]]:
    if not isinstance(grid, Mapping) or not grid:
        raise OptionError(f'{describe(policy)} needs a grid of its parameters, such as {{"alpha": [0.1, 0.3, 1.0]}}')
    for name, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Iterable) or not list(values):
            raise OptionError(f"the grid has {values!r} for {name!r}; give a list of values, at least one")
    return [dict(zip(grid, values, strict=True)) for values in product(*map(list, grid.values()))]


def _vary(policy: Any, values: Mapping[str, Any]) -> tuple[str, Any]:
    """Return name and policy of one combination: a new object of a class, or a copy with other parameters."""
    kind = policy if isinstance(policy, type) else type(policy)
    name = f"{kind.__name__}({', '.join(f'{key}={value!r}' for key, value in values.items())})"
    if isinstance(policy, type):
        try:
            return name, policy(**values)
        except TypeError as problem:
            raise OptionError(f"{name} cannot be made: {problem}") from None
    if not hasattr(policy, "set_params"):
        raise OptionError(f"{kind.__name__} has no set_params; give its class, or a list of policies")
    return name, copy.deepcopy(policy).set_params(**values)


def _resolve(
    evaluator: Any,
    request: EvaluationRequest,
    policies: Mapping[str, Any],
    fixed: Sequence[str],
    exchangeable: bool | None,
) -> tuple[dict[str, Choice], tuple[str, ...]]:
    """Return evaluator and request of each policy, as in a comparison, and the notes on the choice."""
    learning = [name for name in policies if name not in fixed]
    simulates = simulates_histories(evaluator)
    if fixed and learning and (simulates or (isinstance(evaluator, str) and evaluator == "auto")):
        for_learning, for_fixed = resolve_by_kind(
            evaluator,
            request,
            [policies[name] for name in learning],
            [policies[name] for name in fixed],
            exchangeable,
        )
        choices = dict.fromkeys(learning, for_learning) | dict.fromkeys(fixed, for_fixed)
        return choices, (*for_learning[2], *for_fixed[2])
    resolve = resolve_as_fixed if fixed and simulates else resolve_evaluator
    choice = resolve(evaluator, request, list(policies.values()), exchangeable)
    return dict.fromkeys(policies, choice), choice[2]


def _notes(winner: str, rows: Sequence[Candidate], race: Race | None) -> tuple[str, ...]:
    """Return sentences on the choice, on the race, and on settings that the log does not distinguish."""
    won = format_percent(rows[0].share_won)
    notes = [f"{winner} was chosen in {won} of the folds; the value is from folds that did not choose it."]
    if rows[0].share_won < 1:
        others = [row.name for row in rows[1:] if row.share_won]
        shown = join_names(others) if len(others) <= 3 else f"{len(others)} others"
        notes.append(f"Other folds chose {shown}: the value is that of choosing, not of one setting.")
    close = [row.name for row in rows if row.difference is not None and row.difference.interval.high >= 0]
    if close:
        shown = join_names(close) if len(close) <= 3 else f"{len(close)} of {len(rows) - 1} other settings"
        notes.append(f"This log does not distinguish {shown} from it.")
    if race is not None:
        notes.append(f"The race took {race.passes:,} passes of single policies.")
    return tuple(notes)
