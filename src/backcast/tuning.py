"""OptunaObjective: the value of a policy as an objective of Optuna, with pruning between passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from backcast._auto import resolve_evaluator
from backcast._horizon import resolve_horizon
from backcast._parallel.jobs import Execution
from backcast._racing import FIRST_PASS, STAGES, with_predictions
from backcast._request import AnyLog, AnyRewardModel, EvaluationRequest, Evaluator, as_log, check_request
from backcast._training_split import TrainingSplit
from backcast.checks.policy import probe_policy
from backcast.errors import OptionError
from backcast.evaluation import run_evaluator
from backcast.evaluators.clock_replay import ClockReplay
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.policies._calls import describe
from backcast.policies.wrappers import WarmStart

if TYPE_CHECKING:
    from optuna.trial import BaseTrial


class OptunaObjective:
    """An objective for ``study.optimize``: what the policy of a trial earns per round.

    All trials run the same passes, so that their differences are precise. After 8, 16, 32 and 64 passes the value so
    far is reported, and the study's pruner may end the trial. The study must maximize. What the best trial earns on the
    log that chose it is optimistic: search on one part of the log, and evaluate on another.

    Parameters
    ----------
    log
        The log, or a stream of parts; streams and fixed policies have one value, without pruning.
    make_policy
        Function from a trial to a policy; it calls ``trial.suggest_float`` and the like. With ``study.best_trial`` it
        makes the best policy.
    evaluator, reward_model, horizon, seed, exchangeable, n_jobs
        As for :func:`backcast.evaluate`.

    Examples
    --------
    >>> import optuna
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(None, actions=[0, 1] * 50, rewards=[0, 1] * 50, propensities=[0.5] * 100, reward_range=(0, 1))
    >>> def make_policy(trial):
    ...     p = trial.suggest_float("p", 0, 1, step=0.5)
    ...     return Fixed([1 - p, p])
    >>> study = optuna.create_study(direction="maximize", sampler=optuna.samplers.GridSampler({"p": [0, 0.5, 1]}))
    >>> study.optimize(OptunaObjective(log, make_policy), n_trials=3)
    >>> make_policy(study.best_trial), study.best_value
    (Fixed([0., 1.]), 1.0)
    """

    def __init__(
        self,
        log: AnyLog,
        make_policy: Callable[[Any], Any],
        evaluator: Evaluator | Literal["auto"] = "auto",
        *,
        reward_model: AnyRewardModel | None = None,
        horizon: int | str | None = None,
        seed: int = 0,
        exchangeable: bool | None = None,
        n_jobs: int | None = None,
    ) -> None:
        if not callable(make_policy):
            raise OptionError(f"make_policy is {make_policy!r}; give a function from a trial to a policy")
        self._log, self._make_policy, self._evaluator = as_log(log), make_policy, evaluator
        self._request = EvaluationRequest(
            log=self._log,
            policy=None,
            reward_model=reward_model,
            horizon=resolve_horizon(self._log, horizon)[0],
            seed=seed,
            replicates="default",
            execution=Execution(n_jobs),
        )
        self._exchangeable = exchangeable
        self._prepared: dict[tuple[str, int | None], EvaluationRequest] = {}

    def __call__(self, trial: BaseTrial) -> float:
        """Return the value of the policy of a trial; raise ``optuna.TrialPruned`` if the pruner ends it."""
        from optuna import TrialPruned
        from optuna.study import StudyDirection

        study = getattr(trial, "study", None)
        if study is not None and study.direction != StudyDirection.MAXIMIZE:
            raise OptionError('the study minimizes, but the value is a reward; use create_study(direction="maximize")')
        policy = self._make_policy(trial)
        name, log = describe(policy), self._log
        if isinstance(policy, WarmStart):
            split = TrainingSplit.of(log, {"": policy})
            log, policy = split.log, split.policies[""]
        evaluator, request = self._prepare(policy, log)
        if not (isinstance(evaluator, ClockReplay) and isinstance(log, Log)):
            return run_evaluator(evaluator, replace(request, policy=policy, policy_name=name)).value
        values: list[float] = []
        for total in STAGES:
            numbers = range(FIRST_PASS + len(values), FIRST_PASS + total)
            table: Any = evaluator.run_jointly(replace(request, passes=numbers, replicates="auto"), [policy])
            values += table.full_values()[:, 0].tolist()
            trial.report(float(np.mean(values)), step=total)
            if trial.should_prune():
                raise TrialPruned(f"after {total} passes")
        return float(np.mean(values))

    def _prepare(self, policy: Any, log: Log | LogStream) -> tuple[Any, EvaluationRequest]:
        """Return the evaluator of a policy and the request for it; its reward model is fitted for the first trial."""
        request = self._request
        check_request(
            [policy],
            level=request.level,
            horizon=request.horizon,
            seed=request.seed,
            replicates=request.replicates,
            exchangeable=self._exchangeable,
            n_jobs=request.execution.n_jobs,
            time_limit=None,
        )
        probe_policy(policy, log, request.seed)
        evaluator, request, _ = resolve_evaluator(
            self._evaluator, replace(request, log=log), [policy], self._exchangeable
        )
        if not (isinstance(evaluator, ClockReplay) and isinstance(log, Log)):
            return evaluator, request
        key = type(evaluator).__name__, len(log)
        if key not in self._prepared:
            self._prepared[key] = with_predictions(request)
        return evaluator, self._prepared[key]
