"""Results are values: they pickle, compare and hash, and hold no log."""

from __future__ import annotations

import gc
import pickle
import weakref
from concurrent.futures import ProcessPoolExecutor
from dataclasses import is_dataclass, replace
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast._equality import ContentEquality

K, N = 3, 400


def make_log(seed: int = 0, n: int = N) -> bc.Log:
    rng = np.random.default_rng(seed)
    actions = rng.integers(K, size=n)
    rewards = (rng.random(n) < 0.2 + 0.2 * actions).astype(float)
    return bc.Log(rng.random((n, 2)), actions, rewards, np.full(n, 1 / K), n_actions=K, reward_range=(0, 1))


def make_results(log: bc.Log) -> dict[str, Any]:
    fast: dict[str, Any] = {"horizon": 10, "replicates": 60}
    learned = bc.evaluate(log, bc.UCB1(), bc.ClockReplay(), **fast)
    replayed = bc.evaluate(log, bc.UCB1(), bc.DRns(q=0.05))
    comparison = bc.compare(log, {"a": bc.UCB1(), "b": bc.Uniform()}, bc.ClockReplay(), **fast)
    health = bc.check(log, bc.Uniform())
    by_device = bc.Log(
        log.contexts,
        log.actions,
        log.rewards,
        log.propensities,
        n_actions=K,
        outcomes={"ms": log.rewards},
        segments={"device": ["phone", "desk"] * (N // 2)},
    )
    read = bc.compare(by_device, {"uniform": bc.Uniform()}, guardrails=["ms < 5"])
    filled = bc.evaluate(log, bc.UCB1(), bc.ClockReplay(fill=True), horizon=600, replicates=16)
    searched = bc.search(log, {"low": bc.Fixed([1, 0, 0]), "high": bc.Fixed([0, 0, 1])})
    return {
        "fixed policy": bc.evaluate(log, bc.Uniform(), bc.IPS()),
        "doubly robust": bc.evaluate(log, bc.Uniform(), bc.DR()),
        "direct method": bc.evaluate(log, bc.Uniform(), bc.DM()),
        "clock replay": learned,
        "replay": replayed,
        "rejection": bc.evaluate(log, bc.UCB1(), bc.RS()),
        "permuted": bc.evaluate(log, bc.UCB1(), bc.DRns(q=0.05), **fast),
        "segments": bc.evaluate(log, bc.UCB1(), bc.DRns(q=0.05), interval=bc.Segments(4)),
        "curve": learned.curve,
        "break-even": learned.break_even,
        "after learning": learned.after_learning,
        "interval": learned.interval,
        "bias estimate": filled.bias_estimate,
        "diagnostics": learned.diagnostics,
        "provenance": learned.provenance,
        "replay summary": learned.replay_summary(),
        "comparison": comparison,
        "difference": comparison.differences[0],
        "outcomes": read,
        "breakdown": read.by_segment("device"),
        "segment": read.by_segment("device").segments[0],
        "guardrail": read.guardrails[0],
        "plan": bc.plan(comparison, 0.05),
        "health": health,
        "finding": health.findings[0],
        "policy fit": health.policy,
        "policy report": bc.checks.check_policy(bc.Uniform(), log),
        "trace": bc.trace(log, bc.UCB1(), bc.DRns(q=0.05)),
        "clock trace": bc.trace(log, bc.UCB1(), bc.ClockReplay(), horizon=10),
        "reward distribution": bc.reward_distribution(log, bc.Uniform()),
        "propensities": bc.estimate_propensities(log),
        "saved": bc.SavedResult(learned, {"log": "news"}),
        "search": searched,
        "candidate": searched.candidates[1],
        "verdict": comparison.verdict,
        "reliability": learned.reliability,
        "rerun": bc.RerunReport(True, {"": learned.value}, {"": learned.value}, (), learned),
    }


@pytest.fixture(scope="module")
def log() -> bc.Log:
    return make_log()


@pytest.fixture(scope="module")
def results(log: bc.Log) -> dict[str, Any]:
    return make_results(log)


def test_every_result_survives_pickle_and_equals_its_copy(results: dict[str, Any]) -> None:
    for name, result in results.items():
        again = pickle.loads(pickle.dumps(result))
        assert again == result, name
        assert hash(again) == hash(result), name
        assert len({result, again}) == 1, name


def test_every_result_has_a_display_for_notebooks(results: dict[str, Any]) -> None:
    for name, result in results.items():
        bundle = result._repr_mimebundle_()
        assert bundle["text/plain"] == str(result), name
        assert bundle["text/html"].startswith("<div"), name
        assert "object at 0x" not in bundle["text/html"], name
        assert "array(" not in bundle["text/html"], name


def test_results_that_differ_are_not_equal(results: dict[str, Any]) -> None:
    for name, result in results.items():
        assert result != results["interval" if name != "interval" else "curve"], name
    estimate = results["clock replay"]
    curve = estimate.curve
    assert replace(estimate, value=estimate.value + 1e-12) != estimate
    assert replace(estimate, curve=replace(curve, value=curve.value + 1e-12)) != estimate
    assert replace(estimate, settings={**estimate.settings, "seed": 1}) != estimate
    unknown = replace(estimate, std_error=float("nan"))
    assert unknown == replace(estimate, std_error=float("nan"))
    assert unknown != estimate


def test_equality_does_not_depend_on_when_and_where(log: bc.Log) -> None:
    first, again = (bc.evaluate(log, bc.UCB1(), bc.DRns(q=0.05), n_jobs=jobs) for jobs in (1, 2))
    assert first == again
    assert first.provenance is not None
    assert first == replace(again, provenance=replace(first.provenance, date="2020-01-01T00:00:00+00:00"))


def test_every_public_result_type_is_tested_here(results: dict[str, Any]) -> None:
    """A new public dataclass that a call returns compares by its content, and is in the list above."""
    public = [getattr(bc, name) for name in bc.__all__]
    values = [kind for kind in public if isinstance(kind, type) and issubclass(kind, ContentEquality)]
    produced = {type(result) for result in results.values()} | {bc.PropensityDiagnostics}
    assert {kind for kind in values if is_dataclass(kind)} <= produced | {bc.LearningCurve}


def test_an_estimate_comes_back_from_another_process(log: bc.Log) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        estimate = pool.submit(evaluate_elsewhere).result(timeout=120)
    assert estimate == bc.evaluate(log, bc.Uniform(), bc.SNIPS())
    assert estimate.replay_summary() == bc.evaluate(log, bc.Uniform(), bc.SNIPS()).replay_summary()
    assert estimate.provenance is not None
    assert estimate.provenance.log.digest == log.fingerprint()


def evaluate_elsewhere() -> bc.Estimate:
    log = make_log()
    estimate = bc.evaluate(log, bc.Uniform(), bc.SNIPS())
    estimate.replay_summary()  # computed here, so that it is pickled with the estimate
    return estimate


def test_results_do_not_hold_the_log() -> None:
    log = make_log(seed=1)
    results = make_results(log)
    reference = weakref.ref(log)
    del log
    gc.collect()
    assert reference() is None
    assert results == pickle.loads(pickle.dumps(results))


def test_an_estimate_is_small_beside_its_log() -> None:
    log = make_log(n=20_000)
    predictions = np.zeros((len(log), K))
    estimates = [
        bc.evaluate(log, bc.Uniform(), bc.IPS()),
        bc.evaluate(log, bc.Uniform(), bc.DR(), reward_model=predictions),
        bc.evaluate(log, bc.UCB1(), bc.ClockReplay(), horizon=10, replicates=60),
    ]
    for estimate in estimates:
        # one number per event for the error of differences, and the rest is small
        assert len(pickle.dumps(estimate)) < 8 * len(log) + 20_000 < log.bytes_in_memory / 2


def test_what_needs_the_log_is_computed_from_it_again() -> None:
    log = make_log()
    estimate = bc.evaluate(log, bc.UCB1(), bc.DRns(q=0.05))
    summary = estimate.replay_summary()
    probabilities = estimate.progressive_policy().probabilities(np.zeros((1, 2)))
    fresh = bc.evaluate(make_log(), bc.UCB1(), bc.DRns(q=0.05))  # whose log is gone
    assert fresh.replay_summary() is None
    with pytest.raises(bc.EvaluationError, match=r"no longer in memory; give it as progressive_policy\(log\)"):
        fresh.progressive_policy()
    with pytest.raises(bc.OptionError, match=f"digest {log[1:].fingerprint()}, and {log.fingerprint()} was evaluated"):
        fresh.replay_summary(log[1:])
    assert fresh.replay_summary(log) == summary
    np.testing.assert_array_equal(fresh.progressive_policy(log).probabilities(np.zeros((1, 2))), probabilities)


def test_the_progressive_policy_of_split_predictions_finds_its_events() -> None:
    """The replayed log is a part of the log that was given, and the part is not kept."""
    log = make_log()
    estimate = bc.evaluate(log, bc.UCB1(), bc.DRns(q=0.05), reward_model=bc.Split(bc.PerAction()))
    gc.collect()
    assert estimate.progressive_policy().probabilities(np.zeros((1, 2))).shape == (1, K)


def test_a_report_without_the_log_says_what_is_missing(tmp_path: Any) -> None:
    estimate = bc.evaluate(make_log(), bc.Uniform(), bc.IPS())
    page = bc.save_report(estimate, tmp_path / "report.html").read_text()
    assert "log was no longer in memory" in page
    assert "Health of the log" not in page
    complete = bc.save_report(estimate, tmp_path / "report.html", log=make_log()).read_text()
    assert "log was no longer in memory" not in complete
    assert "Health of the log" in complete
