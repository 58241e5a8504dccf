"""search(): the best setting, its value on folds that did not choose it, and the cost of the race."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import Ridge

import backcast as bc
from backcast._racing import STAGES
from backcast.environments import LinearEnvironment
from backcast.evaluators._replicates import PILOT_PASSES
from tests.support.logs import two_action_log

WORLD = LinearEnvironment(3, 4, logistic=True, signal=2.0, spread=1.0)
LOG = WORLD.log(1500, np.random.default_rng(1))
SHORT: dict[str, Any] = {"horizon": 60, "reward_model": 0.5, "exchangeable": True}
GRID = {"epsilon": [0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 1.0]}


@pytest.fixture(scope="module")
def best() -> bc.SearchResult:
    return bc.search(LOG, bc.EpsilonGreedy(batch_size=10), GRID, **SHORT)


@pytest.fixture(scope="module")
def all_compared() -> dict[str, bc.Estimate]:
    policies = {f"EpsilonGreedy(epsilon={each})": bc.EpsilonGreedy(each, batch_size=10) for each in GRID["epsilon"]}
    return bc.compare(LOG, policies, **SHORT).estimates


def test_the_best_of_16_settings_at_a_third_of_the_cost(
    best: bc.SearchResult, all_compared: dict[str, bc.Estimate]
) -> None:
    by_value = sorted(all_compared, key=lambda name: -all_compared[name].value)
    # neighbours in the grid differ by less than the noise of passes; the log does not distinguish the first few
    assert best.name in by_value[:2]
    of_all = sum(PILOT_PASSES + estimate.diagnostics.passes for estimate in all_compared.values())
    of_best = PILOT_PASSES + best.estimate.diagnostics.passes
    assert best.passes + of_best <= 0.35 * of_all  # 392 passes and 1,152


def test_candidates_are_ordered_and_complete(best: bc.SearchResult) -> None:
    assert len(best.candidates) == 16
    assert best.best.name == best.name
    assert best.best.difference is None
    assert best.best.stage is None
    assert best.policy.epsilon == best.best.parameters["epsilon"]
    assert best.policy.batch_size == 10
    values = [candidate.value for candidate in best.candidates]
    assert values == sorted(values, reverse=True)
    assert sum(candidate.share_won for candidate in best.candidates) == pytest.approx(1)
    assert best.passes == sum(candidate.passes for candidate in best.candidates)
    for candidate in best.candidates[1:]:
        assert candidate.difference is not None
        assert candidate.difference.value <= 0
        assert candidate.stage is not None
        assert candidate.passes == STAGES[candidate.stage - 1]
    # random choice is clearly worse than the best, and dropped at once
    last = next(candidate for candidate in best.candidates if candidate.parameters == {"epsilon": 1.0})
    assert last.stage == 1
    assert last.difference is not None
    assert last.difference.interval.high < 0


def test_differences_agree_with_those_of_a_comparison(best: bc.SearchResult) -> None:
    policies = {"random": bc.EpsilonGreedy(1.0, batch_size=10), "best": best.policy}
    compared = bc.compare(LOG, policies, replicates=64, **SHORT).differences[0]
    found = next(each for each in best.candidates if each.parameters == {"epsilon": 1.0}).difference
    assert found is not None
    # both are estimates of the same difference on the same log, from other passes
    noise = np.hypot(compared.monte_carlo_error, found.monte_carlo_error)
    assert abs(compared.value - found.value) < 4 * noise
    sampling = (np.sqrt(each.std_error**2 - each.monte_carlo_error**2) for each in (found, compared))
    # by 8 passes and by 64
    assert 0.5 < next(sampling) / next(sampling) < 2


def test_results_are_values(best: bc.SearchResult) -> None:
    again = pickle.loads(pickle.dumps(best))
    assert again == best
    document = json.loads(json.dumps(best.to_dict(), allow_nan=False))
    assert document["best"] == best.name
    assert len(document["candidates"]) == 16
    frame = best.to_frame()
    assert frame.num_rows == 16
    assert frame.column("epsilon")[0].as_py() == best.policy.epsilon
    text = str(best)
    assert text.startswith(f"{best.name}: ")
    assert "dropped after stage 1" in text


def test_the_same_seed_gives_the_same_result_in_any_company_of_jobs(best: bc.SearchResult) -> None:
    again = bc.search(LOG, bc.EpsilonGreedy(batch_size=10), GRID, n_jobs=2, **SHORT)
    assert again == best


def test_an_undisputed_winner_has_the_value_of_an_evaluation() -> None:
    policies = {"good": bc.EpsilonGreedy(0.05, batch_size=10), "bad": bc.EpsilonGreedy(1.0, batch_size=10)}
    best = bc.search(LOG, policies, **SHORT)
    alone = bc.evaluate(LOG, policies["good"], **SHORT)
    assert (best.name, best.best.share_won) == ("good", 1)
    assert (best.estimate.value, best.estimate.std_error) == (alone.value, alone.std_error)
    assert best.estimate.interval == alone.interval


def test_fixed_and_learning_policies_race_together() -> None:
    policies = {
        "learner": bc.EpsilonGreedy(0.05, batch_size=10),
        "random": bc.Uniform(),
        "mixed": bc.Fixed([0.2, 0.4, 0.4]),
    }
    best = bc.search(LOG, policies, **SHORT)
    assert best.name == "learner"
    fixed = next(candidate for candidate in best.candidates if candidate.name == "random")
    assert fixed.passes == 0
    assert fixed.difference is not None
    assert fixed.difference.interval.high < 0


def test_policies_with_warm_starts_are_evaluated_on_the_same_events() -> None:
    best = bc.search(
        LOG,
        bc.WarmStart(bc.EpsilonGreedy(batch_size=10), share=0.2),
        {"policy__epsilon": [0.05, 1.0]},
        **SHORT,
    )
    assert best.policy.policy.epsilon == 0.05
    assert best.estimate.diagnostics.events == 1200
    assert best.estimate.policy == repr(best.policy)
    assert any("The first 300 events of the log trained" in note for note in best.notes)


@pytest.mark.parametrize(
    ("evaluator", "options"),
    [
        (bc.DRns(q=0.05), {"exchangeable": False}),
        (bc.DM(), {}),
    ],
    ids=["in log order", "by a model"],
)
def test_evaluators_without_passes_are_run_on_segments(evaluator: Any, options: dict[str, Any]) -> None:
    policies = {"good": bc.EpsilonGreedy(0.05, batch_size=5), "bad": bc.EpsilonGreedy(1.0, batch_size=5)}
    model = bc.Fitted(bc.PerAction(Ridge()).fit(LOG))
    best = bc.search(LOG, policies, evaluator=evaluator, horizon=15, reward_model=model, **options)
    assert best.passes == 0
    assert best.estimate.settings["segments"] == 10
    assert best.name == "good"


def test_streams_are_searched_by_their_parts() -> None:
    policies = {"good": bc.EpsilonGreedy(0.05, batch_size=10), "bad": bc.EpsilonGreedy(1.0, batch_size=10)}
    best = bc.search([LOG[:1000], LOG[1000:]], policies, evaluator=bc.ClockReplay(), horizon=20, reward_model=0.5)
    assert best.name == "good"
    assert best.folds == 5


def equal_policies(n: int, rng: np.random.Generator) -> dict[str, bc.Fixed]:
    """Fixed policies of equal value: in a world without an effect of actions, every policy earns 1/2."""

    def policy(sign: Any) -> bc.Fixed:
        def probabilities(contexts: Any) -> Any:
            first = (contexts @ sign > 0).astype(float)
            return np.column_stack([first, 1 - first])

        return bc.Fixed(probabilities)

    return {f"policy {i}": policy(rng.normal(size=6)) for i in range(n)}


def test_the_value_of_the_winner_is_not_optimistic() -> None:
    """Sixteen policies of the same value: the best estimate is far too high, that of the search is not."""
    searched, naive, covered, logs = [], [], 0, 60
    for number in range(logs):
        rng = np.random.default_rng(number)
        contexts, actions = rng.normal(size=(400, 6)), rng.integers(2, size=400)
        log = bc.Log(contexts, actions, rng.integers(2, size=400) * 1.0, np.full(400, 0.5), reward_range=(0, 1))
        best = bc.search(log, equal_policies(16, rng), evaluator=bc.IPS(), seed=number)
        searched.append(best.estimate.value - 0.5)
        naive.append(best.best.value - 0.5)
        covered += best.estimate.interval.low <= 0.5 <= best.estimate.interval.high
    # odds of a false alarm: 1e-3 for each of the first two
    assert abs(np.mean(searched)) < stats.t.isf(5e-4, logs - 1) * stats.sem(searched)
    assert covered >= stats.binom.ppf(1e-3, logs, 0.95)
    # by hand: of 2 r if the actions agree, the variance is 3/4, and the standard error 0.043; the mean of the largest
    # of sixteen standard normals is 1.77, and these are correlated
    assert np.mean(naive) > 1.2 * np.sqrt(0.75 / 400)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: bc.search(LOG, bc.LinUCB, {"alpha": [0.1, 0.3]}), "give horizon=T"),
        (lambda: bc.search(LOG, bc.LinUCB, horizon=9), "needs a grid of its parameters"),
        (lambda: bc.search(LOG, bc.LinUCB, {"alfa": [1, 2]}, horizon=9), "cannot be made"),
        (lambda: bc.search(LOG, bc.LinUCB(), {"alfa": [1, 2]}, horizon=9), "no parameter 'alfa'; did you mean 'alpha'"),
        (lambda: bc.search(LOG, bc.LinUCB, {"alpha": [-1, 2]}, horizon=9), "alpha is -1"),
        (lambda: bc.search(LOG, bc.LinUCB, {"alpha": []}, horizon=9), "give a list of values"),
        (lambda: bc.search(LOG, bc.LinUCB, {"alpha": [1]}, horizon=9), "1 settings given; a search needs at least two"),
        (lambda: bc.search(LOG, bc.LinUCB, {"alpha": "high"}, horizon=9), "give a list of values"),
        (lambda: bc.search(LOG, [bc.LinUCB(), bc.LinUCB()], horizon=9), "two settings are the same"),
        (lambda: bc.search(LOG, [bc.LinUCB(), bc.UCB1()], {"alpha": [1]}, horizon=9), "a grid varies one policy"),
        (lambda: bc.search(LOG, [bc.LinUCB, bc.UCB1], horizon=9), "LinUCB is a class"),
        (lambda: bc.search(LOG, [bc.LinUCB(), bc.UCB1()], horizon=9, folds=1), "folds is 1"),
    ],
)
def test_bad_input(call: Any, words: str) -> None:
    with pytest.raises(bc.OptionError, match=words):
        call()


def test_a_stopped_search_says_so() -> None:
    def stop(events: int) -> None:
        raise bc.StopEvaluation

    with pytest.raises(bc.StopEvaluation):
        bc.search(two_action_log(), [bc.UCB1(), bc.RoundRobin()], progress=stop, horizon=20, exchangeable=True)
