"""Stopping a run: the answer comes from what is done, and says so."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast._request import is_partial
from tests.support.logs import two_action_log
from tests.support.policies import FollowTheLeader

EVENTS = 6000


@pytest.fixture(scope="module")
def log() -> bc.Log:
    return two_action_log(EVENTS)


def after(calls: int) -> Callable[[int], None]:
    """A progress function that has enough from this call on."""
    reported = 0

    def tell(events: int) -> None:
        nonlocal reported
        reported += 1
        if reported >= calls:
            raise bc.StopEvaluation

    return tell


def asked(log: bc.Log, calls: int, **options: Any) -> bc.Estimate:
    return bc.evaluate(log, bc.UCB1(), bc.ClockReplay(), horizon=20, progress=after(calls), **options)


# calls come after each pass over the whole log
class TestReplicates:
    def test_too_few_give_the_value_alone(self, log: bc.Log) -> None:
        result = asked(log, 5)
        assert math.isnan(result.std_error)
        assert result.interval is None
        assert result.diagnostics.to_dict()["passes"] == 5
        assert result.notes == (
            "Partial: the run was stopped when 5 of 40 passes over the log were finished. These are not enough for a "
            "standard error.",
        )

    def test_one_pass_is_an_answer(self, log: bc.Log) -> None:
        result = asked(log, 1)
        # many passes give nearly the same; a pass has a standard deviation of about .08 over its twenty rounds
        assert abs(result.value - asked(log, 10_000, replicates=None).value) < 0.4
        assert math.isnan(result.diagnostics.to_dict()["monte_carlo_error"])

    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_enough_of_them_give_an_interval(self, log: bc.Log, n_jobs: int) -> None:
        result = asked(log, 20, n_jobs=n_jobs)
        assert result.interval is not None
        assert result.diagnostics.to_dict()["passes"] == 20
        assert result.notes[0].startswith("Partial: the run was stopped when 20 of ")

    def test_so_do_enough_subsets(self, log: bc.Log) -> None:
        # eight pilots choose the size of the subsets
        result = asked(log, 8 + 37 + 100, interval=bc.GroupJackknife(), replicates=300)
        assert result.interval is not None
        assert result.diagnostics.to_dict()["replicates"] == 100
        assert result.notes[0].endswith("when 37 passes over the log and 100 of 300 replicates were finished.")

    def test_the_value_alone_can_be_stopped_too(self, log: bc.Log) -> None:
        result = asked(log, 3, replicates=None)
        assert result.notes == (
            "Partial: the run was stopped when 3 of 32 passes over the log were finished. These are not enough for a "
            "standard error.",
        )

    def test_nothing_is_said_where_all_was_done(self, log: bc.Log) -> None:
        assert not is_partial(asked(log, 10_000, replicates=60).notes)

    def test_a_comparison_without_errors_has_no_differences(self, log: bc.Log) -> None:
        policies = {"a": bc.UCB1(), "b": bc.RoundRobin()}
        early, late = (
            bc.compare(log, policies, bc.ClockReplay(), horizon=20, progress=after(calls)) for calls in (5, 20)
        )
        assert list(early.estimates) == ["a", "b"]
        assert (early.differences, early.ranking) == ((), ())
        assert len(late.differences) == 1
        assert is_partial(early.notes)
        assert is_partial(late.notes)

    def test_permutations_are_stopped_alike(self, log: bc.Log) -> None:
        result = bc.evaluate(log, bc.UCB1(), bc.DRns(q=0.01), horizon=20, replicates=60, progress=after(3))
        assert result.notes[0].startswith("Partial: the run was stopped when 3 of 60 passes")


class TestOneRun:
    @pytest.mark.parametrize("evaluator", [bc.DRns(q=0.01), bc.RS(), bc.WC()], ids=lambda item: item.name)
    def test_the_run_so_far_is_an_answer(self, log: bc.Log, evaluator: Any) -> None:
        result = bc.evaluate(log, FollowTheLeader(), evaluator, progress=after(1))
        events = result.diagnostics.events
        assert 2048 <= events < EVENTS
        assert result.notes[0] == f"Partial: the run was stopped when {events:,} of 6,000 events were finished."
        assert result.interval is not None

    def test_it_is_that_of_the_shorter_log(self, log: bc.Log) -> None:
        options: dict[str, Any] = {"reward_model": 0.5, "seed": 3}
        stopped = bc.evaluate(log, FollowTheLeader(), bc.DRns(q=0.01), progress=after(1), **options)
        whole = bc.evaluate(log[: stopped.diagnostics.events], FollowTheLeader(), bc.DRns(q=0.01), **options)
        assert stopped.value == pytest.approx(whole.value, abs=1e-12)

    def test_without_a_complete_trajectory_there_is_no_answer(self, log: bc.Log) -> None:
        with pytest.raises(bc.StopEvaluation):
            bc.evaluate(log, FollowTheLeader(), bc.DRns(q=0.01), horizon=2900, progress=after(1))

    def test_a_search_for_q_answers_from_what_it_tried(self, log: bc.Log) -> None:
        result = bc.evaluate(log, bc.UCB1(), bc.DRns(q="auto"), horizon=20, progress=after(4))
        assert result.notes[0].startswith("SLOPE++ chose")


class TestFixedPolicies:
    def test_the_last_word_comes_too_late_to_stop_anything(self, log: bc.Log) -> None:
        assert bc.evaluate(log, bc.Uniform(), bc.IPS(), progress=after(1)).notes == ()

    def test_blocks_so_far_are_an_answer(self) -> None:
        events = 70_000  # blocks are of 65,536
        actions = np.arange(events) % 2
        log = bc.Log(None, actions, actions * 1.0, np.full(events, 0.5), reward_range=(0, 1))
        result = bc.evaluate(log, bc.Uniform(), bc.IPS(), progress=after(1))
        assert result.notes == ("Partial: the run was stopped when 65,536 of 70,000 events were finished.",)
        assert result.value == 0.5

    def test_policies_not_begun_are_left_out_of_a_comparison(self) -> None:
        events = 70_000
        actions = np.arange(events) % 2
        log = bc.Log(None, actions, actions * 1.0, np.full(events, 0.5), reward_range=(0, 1))
        policies: dict[str, Any] = {"a": bc.Uniform(), "b": bc.Fixed([0.25, 0.75])}
        result = bc.compare(log, policies, bc.IPS(), progress=after(1))
        assert is_partial(result.notes) or all(is_partial(estimate.notes) for estimate in result.estimates.values())
