"""Outcomes and segments read off the same histories: logs that carry them, and agreement with separate evaluations."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import backcast as bc
from backcast._readings import OTHER, OutcomeReading, SegmentReading, plan_readings
from backcast.environments import LinearEnvironment
from backcast.errors import ColumnError, EvaluationError, LogError, OptionError
from backcast.evaluators._logged_rewards import LoggedMean
from backcast.io.stream import LogStream
from backcast.log import concat_logs, replace_columns
from backcast.reward_models import Constant, CrossFit
from tests.support.policies import RewardProportional

N = 900
FIXED: dict[str, Any] = {"a": bc.Fixed([0.5, 0.3, 0.2]), "b": bc.Fixed([0.2, 0.3, 0.5])}
WHOLE = LinearEnvironment(3, 4, logistic=True, logging="paper").log(N, np.random.default_rng(2))
DEVICE = np.random.default_rng(3).choice(["phone", "desk", "tv"], size=N, p=[0.6, 0.35, 0.05])
MS = 20 + 5 * WHOLE.actions + np.random.default_rng(4).normal(size=N)


def with_outcomes(**options: Any) -> bc.Log:
    columns: dict[str, Any] = {"outcomes": {"ms": MS, "copy": WHOLE.rewards}, "segments": {"device": DEVICE}}
    return bc.Log(
        WHOLE.contexts,
        WHOLE.actions,
        WHOLE.rewards,
        WHOLE.propensities,
        n_actions=3,
        reward_range=(0, 1),
        **{**columns, **options},
    )


LOG = with_outcomes()
PREDICTED = np.random.default_rng(5).random((N, 3))


# logs


def test_outcomes_and_segments_survive_slicing_sorting_concatenation_and_pickling() -> None:
    times = np.random.default_rng(0).permutation(N)
    log = with_outcomes(times=times)
    order = np.argsort(times)
    for each in (log, pickle.loads(pickle.dumps(log)), concat_logs([log[:100], log[100:]])):
        np.testing.assert_array_equal(each.outcomes["ms"], MS[order])
        np.testing.assert_array_equal(each.segments["device"], DEVICE[order])
    head, tail = log.split_head(10)
    assert tail is not None
    np.testing.assert_array_equal(head.segments["device"], DEVICE[order][:10])
    np.testing.assert_array_equal(tail.outcomes["copy"], WHOLE.rewards[order][10:])
    with pytest.raises(ValueError, match="read-only"):
        log.outcomes["ms"][0] = 1.0


def test_labels_of_parts_are_merged() -> None:
    first = bc.Log(None, [0, 1], [0, 1], [0.5, 0.5], segments={"device": ["phone", None]})
    second = bc.Log(None, [0, 1], [0, 1], [0.5, 0.5], segments={"device": ["desk", "phone"]})
    joined = concat_logs([first, second])
    assert joined.segments["device"].tolist() == ["phone", "missing", "desk", "phone"]
    other = bc.Log(None, [0, 1], [0, 1], [0.5, 0.5])
    with pytest.raises(LogError, match="different outcomes or segment columns"):
        concat_logs([first, other])


def test_the_fingerprint_covers_outcomes_and_segments() -> None:
    digests = {
        WHOLE.fingerprint(),
        LOG.fingerprint(),
        with_outcomes(segments=None).fingerprint(),
        with_outcomes(outcomes={"ms": MS + 1, "copy": WHOLE.rewards}).fingerprint(),
        with_outcomes(segments={"device": np.roll(DEVICE, 1)}).fingerprint(),
        with_outcomes(segments={"kind": DEVICE}).fingerprint(),
    }
    assert len(digests) == 6
    assert LOG[:].fingerprint() == LOG.fingerprint()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"segments": {"age": np.arange(N) / 7}}, "Cut the column into at most 20 ranges"),
        ({"segments": {"user": [f"u{k}" for k in range(1001)] * 1}}, "has 1001 rows"),
        ({"segments": ["device"]}, "segments is a list"),
        ({"outcomes": {"ms": np.full(N, np.nan)}}, "outcome 'ms' is nan"),
        ({"outcomes": {"ms": MS[:5]}}, "has 5 rows"),
        ({"outcomes": [MS]}, "outcomes is a list"),
        ({"outcomes": {" ": MS}}, "empty name"),
    ],
)
def test_unusable_columns_are_refused_with_the_remedy(options: Any, message: str) -> None:
    with pytest.raises((LogError, OptionError), match=message):
        with_outcomes(**options)


def test_too_many_texts_are_refused() -> None:
    with pytest.raises(LogError, match="merge them into fewer groups"):
        bc.Log(None, [0, 1] * 501, [0, 1] * 501, [0.5] * 1002, segments={"user": list(map(str, range(1002)))})


def frame() -> dict[str, Any]:
    features = {f"x{j}": WHOLE.contexts[:, j] for j in range(4)}
    device = [None if label == "tv" else str(label) for label in DEVICE]
    return {**features, "a": WHOLE.actions, "r": WHOLE.rewards, "p": WHOLE.propensities, "ms": MS, "device": device}


COLUMNS: dict[str, Any] = {"context": "x*", "action": "a", "reward": "r", "propensity": "p"}


def test_frames_and_files_have_outcomes_and_segments_which_are_never_features(tmp_path: Path) -> None:
    pq.write_table(pa.table(frame()), tmp_path / "log.parquet", row_group_size=200)
    columns = {**COLUMNS, "context": "*", "outcomes": {"latency": "ms"}, "segments": ["device"]}
    read = bc.read_log(tmp_path / "log.parquet", **columns)
    built = bc.Log.from_frame(frame(), **columns)
    stream = bc.scan_log(tmp_path / "log.parquet", batch_rows=128, **columns)
    assert (stream.outcome_names, stream.segment_names) == (("latency",), ("device",))
    for log in (read, built, stream.read(), concat_logs(list(stream.parts()))):
        assert log.feature_names == ("x0", "x1", "x2", "x3")
        np.testing.assert_array_equal(log.outcomes["latency"], MS)
        assert set(log.segments["device"]) == {"phone", "desk", "missing"}
    assert read.fingerprint() == built.fingerprint()
    with pytest.raises(ColumnError, match="an outcome, which is known only afterwards"):
        bc.Log.from_frame(frame(), **{**columns, "context": ["ms"]})
    with pytest.raises(ColumnError, match="has another role"):
        bc.Log.from_frame(frame(), **{**columns, "outcomes": "r"})
    # a segment column that is named as context is both
    both = bc.Log.from_frame({**frame(), "device": DEVICE.tolist()}, **{**columns, "context": ["x0", "device"]})
    assert both.n_features == 4
    assert "device" in both.segments


# planning


def test_small_segments_are_pooled() -> None:
    readings = plan_readings(LOG)
    assert readings[:2] == (OutcomeReading("ms", 0), OutcomeReading("copy", 1))
    segments = [reading for reading in readings if isinstance(reading, SegmentReading)]
    assert [(each.name, each.labels) for each in segments] == [
        ("phone", ("phone",)),
        ("desk", ("desk",)),
        (OTHER, ("tv",)),
    ]
    assert sum(each.share for each in segments) == pytest.approx(1.0, abs=1e-15)
    assert plan_readings(LogStream.from_logs([LOG[:400], LOG[400:]])) == readings
    assert plan_readings(WHOLE) == ()


# fixed policies


@pytest.mark.parametrize(
    ("evaluator", "model"),
    [(bc.DR(), PREDICTED), (bc.IPS(), None), (bc.SNDR(), PREDICTED), (bc.SwitchDR(threshold=3.0), PREDICTED)],
)
def test_fixed_policies_agree_with_separate_evaluations(evaluator: Any, model: Any) -> None:
    found = bc.compare(LOG, FIXED, evaluator, reward_model=model)
    alone = bc.compare(WHOLE, FIXED, evaluator, reward_model=model)
    assert {name: each.value for name, each in found.estimates.items()} == {
        name: each.value for name, each in alone.estimates.items()
    }
    assert found.lifts == alone.lifts
    for segment in found.by_segment("device"):
        inside = np.isin(DEVICE, segment.labels)
        separate = bc.compare(WHOLE[inside], FIXED, evaluator, reward_model=model)
        assert segment.events == inside.sum()
        for name in FIXED:
            assert segment.values[name] == pytest.approx(separate.estimates[name].value, abs=1e-12)
            assert segment.lifts[name].value == pytest.approx(separate.lifts[name].value, abs=1e-12)
            assert segment.lifts[name].std_error == pytest.approx(separate.lifts[name].std_error, abs=1e-12)
            # one of four intervals that hold together, not of two
            assert segment.lifts[name].interval.half_width > separate.lifts[name].interval.half_width


@pytest.mark.parametrize("evaluator", [bc.DR(), bc.IPS()])
def test_segments_add_up_to_the_whole(evaluator: Any) -> None:
    found = bc.compare(LOG, FIXED, evaluator)
    segments = list(found.by_segment("device"))
    for name in FIXED:
        total = sum(segment.share * segment.values[name] for segment in segments)
        assert total == pytest.approx(found.estimates[name].value, abs=1e-12)
        lift = sum(segment.share * segment.lifts[name].value for segment in segments)
        assert lift == pytest.approx(found.lifts[name].value, abs=1e-12)


@pytest.mark.parametrize("evaluator", [bc.DR(), bc.IPS(), bc.SNIPS()])
def test_outcomes_of_fixed_policies_are_those_of_a_log_with_that_reward(evaluator: Any) -> None:
    found = bc.compare(LOG, FIXED, evaluator)
    separate = bc.compare(bc.Log(WHOLE.contexts, WHOLE.actions, MS, WHOLE.propensities, n_actions=3), FIXED, evaluator)
    for name in FIXED:
        read = found.outcomes["ms"].estimates[name]
        assert read.value == pytest.approx(separate.estimates[name].value, abs=1e-12)
        assert read.std_error == pytest.approx(separate.estimates[name].std_error, abs=1e-12)
    assert found.outcomes["ms"].outcome == "ms"
    with pytest.raises(EvaluationError, match="may be better or worse"):
        _ = found.outcomes["ms"].verdict


# learning policies

LEARNERS: dict[str, Any] = {"ucb": bc.LinUCB(0.3, batch_size=5), "python": RewardProportional()}
OPTIONS: dict[str, Any] = {"horizon": 40, "exchangeable": True, "reward_model": CrossFit(Constant())}


@pytest.mark.parametrize(
    ("evaluator", "replicates"), [(bc.ClockReplay(), 8), (bc.DRns(q=0.05), 60), (bc.DRns(q=0.05), None)]
)
def test_learners_learn_from_the_reward_whatever_is_read(evaluator: Any, replicates: Any) -> None:
    policies = {"ucb": LEARNERS["ucb"]} if replicates == 60 else LEARNERS
    options: dict[str, Any] = {**OPTIONS, "replicates": replicates, "exchangeable": True if replicates else None}
    # subsets of groups have fewer events
    options["horizon"] = 10 if replicates == 60 else 40
    found = bc.compare(LOG, policies, evaluator, **options)
    alone = bc.compare(WHOLE, policies, evaluator, **options)
    for name in policies:
        # nothing changes by reading more
        assert found.estimates[name].value == alone.estimates[name].value
        assert found.estimates[name].std_error == alone.estimates[name].std_error
        assert found.outcomes["ms"].estimates[name].break_even is None
        # an outcome that is the reward is read as the reward
        copy = found.outcomes["copy"].estimates[name]
        assert copy.value == pytest.approx(found.estimates[name].value, abs=1e-12)
        # the same history, read in a run of its own
        read = OutcomeReading("ms", 0).apply(LOG)
        separate = bc.compare(read, policies, evaluator, **options).estimates[name]
        assert found.outcomes["ms"].estimates[name].value == pytest.approx(separate.value, abs=1e-12)
        assert found.outcomes["ms"].estimates[name].std_error == pytest.approx(separate.std_error, abs=1e-12)
        # and not that of a policy that learns from the outcome
        other = replace_columns(read, learned=None)
        learned = bc.compare(other, {name: policies[name]}, evaluator, **options).estimates[name]
        assert abs(learned.value - separate.value) > 1e-3


def test_one_segment_is_the_whole() -> None:
    log = with_outcomes(segments={"all": ["x"] * N}, outcomes=None)
    for evaluator, replicates in ((bc.ClockReplay(), 8), (bc.DRns(q=0.05), None)):
        options: dict[str, Any] = {**OPTIONS, "replicates": replicates, "exchangeable": True if replicates else None}
        found = bc.compare(log, {**FIXED, **LEARNERS}, evaluator, **options)
        (segment,) = found.by_segment("all")
        for name, lift in found.lifts.items():
            assert segment.values[name] == pytest.approx(found.estimates[name].value, abs=1e-12)
            assert segment.lifts[name].value == pytest.approx(lift.value, abs=1e-12)
            assert segment.lifts[name].std_error == pytest.approx(lift.std_error, rel=1e-9)


def test_the_baseline_may_be_a_policy() -> None:
    found = bc.compare(LOG, {**FIXED, **LEARNERS}, bc.ClockReplay(), baseline="b", replicates=8, **OPTIONS)
    segment = found.by_segment("device")["phone"]
    assert set(segment.lifts) == {"a", "ucb", "python"}
    assert segment.lifts["a"].value == pytest.approx(segment.values["a"] - segment.values["b"], abs=1e-15)
    assert segment.baseline == segment.values["b"]
    outcome = found.outcomes["ms"]
    assert outcome.lifts["ucb"].value == pytest.approx(
        outcome.estimates["ucb"].value - outcome.estimates["b"].value, abs=1e-12
    )


def test_warm_starts_are_read_on_the_other_events() -> None:
    found = bc.compare(LOG, {"warm": bc.WarmStart(bc.LinUCB(), share=0.3)}, bc.ClockReplay(), replicates=8, **OPTIONS)
    rest = LOG[round(0.3 * N) :]
    assert sum(segment.events for segment in found.by_segment("device")) == len(rest)
    baseline = found.outcomes["ms"].baseline
    assert baseline is not None
    assert baseline.value == pytest.approx(rest.outcomes["ms"].mean(), abs=1e-12)


def test_results_do_not_depend_on_the_number_of_jobs() -> None:
    one, two = (
        bc.compare(LOG, {"ucb": LEARNERS["ucb"]}, bc.ClockReplay(), replicates=8, n_jobs=n_jobs, **OPTIONS)
        for n_jobs in (1, 2)
    )
    assert one.to_dict() == two.to_dict()


def test_a_learner_on_the_direct_method_is_refused() -> None:
    with pytest.raises(EvaluationError, match="use ClockReplay or DRns"):
        bc.compare(LOG, {"ucb": bc.LinUCB()}, bc.DM(), horizon=40)


# streams


@pytest.fixture(scope="module")
def stream() -> LogStream:
    return LogStream.from_logs([LOG[:300], LOG[300:500], LOG[500:]])


def test_fixed_policies_on_a_stream_are_those_in_memory(stream: LogStream) -> None:
    for evaluator, model in ((bc.DR(), 0.5), (bc.IPS(), None)):
        found, whole = (bc.compare(log, FIXED, evaluator, reward_model=model) for log in (stream, LOG))
        for name in FIXED:
            for outcome in ("ms", "copy"):
                read, expected = found.outcomes[outcome], whole.outcomes[outcome]
                assert read.lifts[name].value == pytest.approx(expected.lifts[name].value, abs=1e-12)
                assert read.lifts[name].std_error == pytest.approx(expected.lifts[name].std_error, rel=1e-9)
            for segment, in_memory in zip(found.by_segment("device"), whole.by_segment("device"), strict=True):
                assert segment.name == in_memory.name
                assert segment.lifts[name].value == pytest.approx(in_memory.lifts[name].value, abs=1e-12)
                assert segment.lifts[name].std_error == pytest.approx(in_memory.lifts[name].std_error, rel=1e-9)
        assert "Bonferroni" in found.by_segment("device").notes[0]


def test_a_learner_in_log_order_on_a_stream_is_that_in_memory(stream: LogStream) -> None:
    options: dict[str, Any] = {"horizon": 40, "reward_model": 0.5}
    found, whole = (bc.compare(log, LEARNERS, bc.DRns(q=0.05), **options) for log in (stream, LOG))
    for name in LEARNERS:
        assert found.outcomes["ms"].estimates[name].value == whole.outcomes["ms"].estimates[name].value
        for segment, in_memory in zip(found.by_segment("device"), whole.by_segment("device"), strict=True):
            assert segment.values[name] == pytest.approx(in_memory.values[name], abs=1e-12)


def test_parts_of_a_stream_are_read_by_outcome_and_segment(stream: LogStream) -> None:
    options: dict[str, Any] = {"horizon": 10, "exchangeable": True, "reward_model": 0.5}
    found = bc.compare(stream, {"ucb": bc.LinUCB(batch_size=5)}, bc.ClockReplay(), **options)
    copy = found.outcomes["copy"].estimates["ucb"].value
    assert copy == pytest.approx(found.estimates["ucb"].value, abs=1e-12)
    assert found.outcomes["copy"].lifts["ucb"].value == pytest.approx(found.lifts["ucb"].value, abs=1e-12)
    # up to how often unused events of each segment are read
    total = sum(segment.share * segment.values["ucb"] for segment in found.by_segment("device"))
    assert total == pytest.approx(found.estimates["ucb"].value, abs=1e-3)


# results


def test_results_with_outcomes_and_segments_are_saved_and_run_again(tmp_path: Path) -> None:
    pq.write_table(pa.table(frame()), tmp_path / "log.parquet")
    log = bc.read_log(tmp_path / "log.parquet", outcomes={"latency": "ms"}, segments=["device"], **COLUMNS)
    found = bc.compare(log, FIXED, guardrails=["latency < logged + 1"])
    assert bc.Comparison.from_dict(found.to_dict()) == found
    assert pickle.loads(pickle.dumps(found)) == found
    file = bc.save_result(found, tmp_path / "result.json")
    assert bc.load_result(file).result == found
    again = bc.rerun_result(file)
    assert again.same
    assert isinstance(again.result, bc.Comparison)
    assert again.result.guardrails == found.guardrails


def test_segments_and_outcomes_are_found_by_name() -> None:
    found = bc.compare(LOG, FIXED)
    with pytest.raises(OptionError, match="the segment columns are device"):
        found.by_segment("country")
    with pytest.raises(OptionError, match="has no segment 'watch'; the segments are phone, desk, other"):
        found.by_segment("device")["watch"]
    assert found.by_segment("device")["tv"].name == OTHER
    assert set(found.by_segment("device")["tv"].decisions.values()) == {"unclear"}


def test_the_logger_by_segment_is_its_mean() -> None:
    found = bc.compare(LOG, {"today": bc.Logged(), **FIXED})
    for segment in found.by_segment("device"):
        mean = LOG.rewards[np.isin(DEVICE, segment.labels)].mean()
        assert segment.values["today"] == pytest.approx(mean, abs=1e-12)
        assert segment.lifts["today"].value == pytest.approx(0.0, abs=1e-12)
    assert LoggedMean().spec.name == found.outcomes["ms"].estimates["today"].evaluator


def test_a_checkpoint_continues_with_what_is_read(tmp_path: Path) -> None:
    policies = {"ucb": LEARNERS["ucb"], **FIXED}
    first, again = (
        bc.compare(LOG, policies, bc.ClockReplay(), replicates=8, checkpoint=tmp_path / "done", **OPTIONS)
        for _ in range(2)
    )
    assert first.to_dict() == again.to_dict()
    assert first.to_dict() == bc.compare(LOG, policies, bc.ClockReplay(), replicates=8, **OPTIONS).to_dict()


def test_a_run_that_is_stopped_has_the_reward_alone() -> None:
    events = [0]

    def stop_late(n: int) -> None:
        events[0] += n
        if events[0] > 10 * N:
            raise bc.StopEvaluation

    found = bc.compare(LOG, {"ucb": LEARNERS["ucb"]}, bc.ClockReplay(), replicates=32, progress=stop_late, **OPTIONS)
    assert found.outcomes == {}
    assert found.segments == {}
    assert any(note.startswith("Partial:") and "outcomes and segments" in note for note in found.notes)
