"""Segments: no other work is done, and their curves and diagnostics are combined by kind."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import backcast as bc
from backcast._request import EvaluationRequest, is_partial
from backcast.diagnostics import (
    KINDS,
    ModelDiagnostics,
    OtherDiagnostics,
    PermutedDiagnostics,
    PrintedDiagnostics,
    pool_diagnostics,
)
from backcast.estimate import average_curves
from backcast.grading import grade, grade_diagnostics
from tests.support.logs import two_action_log
from tests.support.policies import CountedLeader, count_runs

LOG = two_action_log(600)
WORDS: dict[str, Any] = {"context": "f", "action": "action", "reward": "reward", "propensity": "p", "n_actions": 2}


def in_file(log: bc.Log, folder: Path) -> bc.LogStream:
    columns = {"f": np.zeros(len(log)), "action": log.actions, "reward": log.rewards, "p": log.propensities}
    pq.write_table(pa.table(columns), folder / "log.parquet", row_group_size=70)
    return bc.scan_log(folder / "log.parquet", **WORDS, reward_range=(0, 1))


def test_segments_are_the_only_work(tmp_path: Path, runs: Path) -> None:
    stream, reported = in_file(LOG, tmp_path), list[int]()
    options: dict[str, Any] = {"reward_model": 0.5, "interval": bc.Segments(4)}
    result = bc.evaluate(stream, CountedLeader(str(runs)), bc.DRns(q=0.05), progress=reported.append, **options)
    # without a horizon each segment has one history
    assert count_runs(runs) == 4
    assert reported == [150] * 4
    assert result.diagnostics.events == 600
    assert result.diagnostics.to_dict()["trajectories_complete"] == 4


def test_segments_that_are_kept_are_not_done_again(tmp_path: Path, runs: Path) -> None:
    stream = in_file(LOG, tmp_path)
    options: dict[str, Any] = {"reward_model": 0.5, "interval": bc.Segments(4), "checkpoint": tmp_path / "kept"}
    stop = iter([None, None, bc.StopEvaluation()])

    def enough(events: int) -> None:
        if (problem := next(stop)) is not None:
            raise problem

    partial = bc.evaluate(stream, CountedLeader(str(runs)), bc.DRns(q=0.05), progress=enough, **options)
    assert is_partial(partial.notes)
    assert partial.diagnostics.events == 450
    assert count_runs(runs) == 3
    result = bc.evaluate(stream, CountedLeader(str(runs)), bc.DRns(q=0.05), **options)
    assert count_runs(runs) == 4
    undisturbed = bc.evaluate(stream, CountedLeader(str(runs)), bc.DRns(q=0.05), **{**options, "checkpoint": None})
    assert result.to_dict() == undisturbed.to_dict()


def test_curve_and_facts_are_the_segments_own() -> None:
    options: dict[str, Any] = {"reward_model": 0.5, "horizon": 20}
    whole = bc.evaluate(LOG, bc.UCB1(), bc.DRns(q=0.05), interval=bc.Segments(3), seed=4, **options)
    parts = [
        bc.evaluate(LOG[start : start + 200], bc.UCB1(), bc.DRns(q=0.05), seed=5 + number, **options)
        for number, start in enumerate((0, 200, 400))
    ]
    facts, selected = whole.diagnostics.to_dict(), [part.diagnostics.to_dict() for part in parts]
    for name in ("events", "accepted", "trajectories_complete", "trajectories_failed"):
        assert facts[name] == sum(item[name] for item in selected)
    assert facts["acceptance_rate"] == pytest.approx(facts["accepted"] / facts["events"])
    assert facts["bias_certificate"] == pytest.approx(np.mean([item["bias_certificate"] for item in selected]))
    assert facts["largest_weight"] == max(item["largest_weight"] for item in selected)
    assert whole.curve is not None
    curves = np.array([part.curve.value for part in parts if part.curve is not None])
    np.testing.assert_allclose(whole.curve.value, curves.mean(axis=0))
    reach = stats.t.ppf(0.975, 2) * stats.sem(curves)
    np.testing.assert_allclose(whole.curve.high - whole.curve.low, 2 * reach, atol=1e-12)
    assert whole.settings["segments"] == 3
    # each segment's remainder is too short for one more history, which is nothing to worry about
    [failed] = [fact for fact in grade_diagnostics(whole) if fact.name == "failed trajectories"]
    assert (failed.grade, failed.judgement) == ("good", "only the remainders of the segments")
    assert "failed" not in " ".join(grade(whole).reasons)


def test_weights_of_segments_are_those_of_the_log() -> None:
    policy = bc.Fixed([0.25, 0.75])
    whole, segments = (bc.evaluate(LOG, policy, bc.IPS(), interval=interval) for interval in (None, bc.Segments(7)))
    first, other = whole.diagnostics.to_dict(), segments.diagnostics.to_dict()
    assert other == pytest.approx(first, nan_ok=True)
    assert segments.curve is None


def test_segments_that_choose_their_horizon_say_so() -> None:
    result = bc.evaluate(LOG, bc.UCB1(), bc.ClockReplay(), replicates=None, reward_model=0.5, interval=bc.Segments(3))
    [note] = result.notes
    assert note.startswith(f"No horizon was given, and segments chose their own, of {result.horizon} to ")
    assert result.diagnostics.to_dict()["rounds"] == result.horizon


def test_the_progressive_policy_is_that_of_the_log_in_order() -> None:
    options: dict[str, Any] = {"reward_model": 0.5, "horizon": 20}
    policies = [
        bc.evaluate(LOG, bc.UCB1(), bc.DRns(q=0.05), interval=interval, **options).progressive_policy()
        for interval in (None, bc.Segments(3))
    ]
    first, other = (policy.probabilities(LOG.contexts[:5]) for policy in policies)
    np.testing.assert_array_equal(first, other)


def test_every_kind_of_diagnostics_can_be_joined() -> None:
    for kind in KINDS:
        item = kind(**{entry.name: False if "estimated" in entry.name else 2 for entry in fields(kind)})
        joined = pool_diagnostics([item, replace(item, events=6)])
        assert type(joined) is kind
        assert joined.events == 8


def test_errors_and_counts_of_segments_are_joined() -> None:
    item = PermutedDiagnostics(100, 10, 7, 3.0, 60, 0.25, 0.3, 0.0)
    two = replace(item, trajectories=4.0, bias_certificate=math.inf, sampling_error=0.4, monte_carlo_error=math.nan)
    joined = pool_diagnostics([item, two]).to_dict()
    assert joined["permutations"] == 14
    assert joined["replicates"] == 120
    assert joined["trajectories"] == 3.5
    assert joined["bias_certificate"] == math.inf
    assert joined["sampling_error"] == pytest.approx(0.25)  # sqrt(0.09 + 0.16) / 2
    assert math.isnan(joined["monte_carlo_error"])


def test_curves_of_other_lengths_are_averaged_over_the_stretches_of_the_shortest() -> None:
    short = bc.LearningCurve(np.array([2, 4]), np.array([1.0, 2.0]), np.zeros(2), np.zeros(2))
    long = bc.LearningCurve(np.array([3, 6]), np.array([0.0, 3.0]), np.zeros(2), np.zeros(2))
    result = average_curves([long, short], 0.95)
    np.testing.assert_array_equal(result.rounds, [2, 4])
    # the long one is worth 0, 0 | 0, 3 in these rounds
    np.testing.assert_allclose(result.value, [0.5, 1.75])


@dataclass(frozen=True)
class Odd(PrintedDiagnostics):
    events: int
    moods: str
    share: float


@dataclass(frozen=True)
class Mean:
    """An evaluator of a user, with facts of its own."""

    name = "Mean"

    def estimate(self, request: EvaluationRequest) -> bc.Estimate:
        log = request.log
        assert isinstance(log, bc.Log)
        facts = Odd(len(log), "calm", float(log.rewards[0]))
        return bc.Estimate(float(log.rewards.mean()), math.nan, None, facts, request.policy_name, self.name)


def test_facts_of_others_are_kept_where_all_segments_agree() -> None:
    result = bc.evaluate(LOG, bc.Uniform(), Mean(), interval=bc.Segments(20))
    assert result.diagnostics == OtherDiagnostics({"moods": "calm", "events": 600}, kind="Odd")
    assert result.value == pytest.approx(LOG.rewards.mean())


def test_trajectories_of_models_are_added_up() -> None:
    joined = pool_diagnostics([ModelDiagnostics(10, 5, 2), ModelDiagnostics(12, 4, 3, propensities_estimated=True)])
    assert joined == ModelDiagnostics(22, 4, 5, propensities_estimated=True)
