"""Logs of Vowpal Wabbit: cb and adf text, dsjson, and the message of each fault."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.feature_extraction import FeatureHasher
from sklearn.utils import murmurhash3_32

import backcast as bc
from backcast.errors import BackcastError, OptionError
from backcast.io._vw_files import looks_like_vw
from backcast.io.vw import read_vw


def write(folder: Path, content: str, name: str = "log.vw") -> Path:
    path = folder / name
    path.write_text(content)
    return path


def message_of(path: Any, **options: Any) -> str:
    with pytest.raises(BackcastError) as caught:
        read_vw(path, **options)
    return str(caught.value)


def hash_features(size: int, *features: tuple[str, float]) -> list[float]:
    return list(FeatureHasher(size, input_type="pair").transform([features]).toarray()[0])


def decision(**changes: Any) -> dict[str, Any]:
    """Return a decision among three actions; the second was taken with probability 0.5."""
    return {
        "_label_cost": -1.0,
        "_label_probability": 0.5,
        "_label_Action": 2,
        "_labelIndex": 1,
        "Timestamp": "2024-01-01T00:00:00Z",
        "a": [2, 3, 1],
        "p": [0.5, 0.375, 0.125],
        "c": {"user": {"age": 3, "_id": 9}, "_multi": [{"f": {"x": 1}}, {"f": {"x": 2}}, {"f": {"w": "b"}}]},
        **changes,
    }


def dsjson(*decisions: Any) -> str:
    return "\n".join(json.dumps(each) for each in decisions) + "\n"


# Text, one line per decision


def test_cb_text(tmp_path: Path) -> None:
    path = write(tmp_path, "1:0.5:0.25 | a b:2\n3:-1:0.75 |user age:3 |:0.5 x\n")
    log = read_vw(path, hash_size=16)
    assert log.action_labels == (1, 2, 3)
    assert log.actions.tolist() == [0, 2]
    assert log.rewards.tolist() == [-0.5, 1.0]
    assert log.propensities.tolist() == [0.25, 0.75]
    assert log.available is None
    assert np.asarray(log.contexts)[0].tolist() == hash_features(16, ("^a", 1.0), ("^b", 2.0))
    assert np.asarray(log.contexts)[1].tolist() == hash_features(16, ("user^age", 3.0), ("^x", 0.5))


def test_costs_become_rewards(tmp_path: Path) -> None:
    path = write(tmp_path, "1:0.5:0.25 | a\n1:0:0.25 | a\n")
    assert read_vw(path, reward_scale=2.0).rewards.tolist() == [1.0, 0.0]
    assert not np.signbit(read_vw(path).rewards[1])
    assert read_vw(path, reward_range=(-1, 0)).reward_range == (-1.0, 0.0)


def test_actions_listed_without_cost_are_the_others_allowed(tmp_path: Path) -> None:
    log = read_vw(write(tmp_path, "1 2:0:0.5 'tag | a\n3:1:0.25 | a\n"))
    assert log.available is not None
    assert log.available.tolist() == [[True, True, False], [True, True, True]]


def test_number_of_actions_may_be_declared(tmp_path: Path) -> None:
    path = write(tmp_path, "1:0:0.5 | a\n2:0:0.5 | b\n")
    assert read_vw(path, n_actions=5).action_labels == (1, 2, 3, 4, 5)
    assert f"{path}, line 2: 2 actions, but n_actions is 1" == message_of(path, n_actions=1)


def test_wide_contexts_are_sparse(tmp_path: Path) -> None:
    log = read_vw(write(tmp_path, "1:0:0.5 | a\n"), hash_size=2**20)
    assert isinstance(log.contexts, scipy.sparse.csr_array)
    assert log.n_features == 2**20


def test_compressed_files_patterns_and_lists(tmp_path: Path) -> None:
    first = tmp_path / "a.vw.gz"
    first.write_bytes(gzip.compress(b"1:0:0.5 | a\n"))
    second = write(tmp_path, "2:1:0.5 | b\n", "b.vw")
    sources: list[Any] = [[first, second], str(tmp_path / "*"), [str(tmp_path / "*.gz"), second]]
    for source in sources:
        assert read_vw(source).actions.tolist() == [0, 1]


@pytest.mark.parametrize("name", ["log.dat", "log.ldf", "log.txt", "log.vw", "log"])
def test_tags_as_in_vowpal_wabbit(tmp_path: Path, name: str) -> None:
    """Parsed by VowpalWabbit 9.11: a last word that touches the bar, or starts with a quote, is a tag."""
    path = write(tmp_path, "1:0.5:0.25 mail|user age:2\n2:0:0.5 'x |user age:3\n1:0.5:0.25|user age:2\n", name)
    log = read_vw(path, format="cb")
    assert log.actions.tolist() == [0, 1]
    assert log.reading.lines == 3
    [left_out] = log.reading.left_out
    assert left_out.count == 1
    assert "touches the bar is a tag" in left_out.reason
    adf = write(tmp_path, "shared a|U x\n0:1:0.5 b|A y\nc|A z\n\nshared|U x\n0:1:0.5 |A y\n", name)
    log = read_vw(adf)
    assert log.contexts.shape == (2, 2, 128)
    assert log.actions.tolist() == [0, 1]


def test_a_log_of_labels_that_are_tags_is_explained(tmp_path: Path) -> None:
    message = message_of(write(tmp_path, "1:0.5:0.25| a\n1:0.5:0.25| b\n"), format="cb")
    assert "left out: 2 (no label: what touches the bar is a tag, as in Vowpal Wabbit; put a space" in message


@pytest.mark.parametrize("vw_format", ["cb", "dsjson"])
def test_a_byte_order_mark_is_no_part_of_the_log(tmp_path: Path, vw_format: str) -> None:
    text = dsjson(decision()) if vw_format == "dsjson" else "1:0:0.5 | a\n"
    (tmp_path / "log.json").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert len(read_vw(tmp_path / "log.json")) == 1


def test_folders_in_natural_order(tmp_path: Path) -> None:
    for i in range(1, 12):
        write(tmp_path, f"{i}:0:0.5 | a\n", f"part-{i}.txt")
    write(tmp_path, "read me first\n", "notes.txt")
    write(tmp_path, "1:0:0.5 | a\n", ".hidden.vw")
    log = read_vw(tmp_path)
    assert log.actions.tolist() == list(range(11))
    assert len(log.reading.files) == 11
    (tmp_path / "empty").mkdir()
    assert "the folder holds no log of Vowpal Wabbit" in message_of(tmp_path / "empty")


# Text, one line per action

ADF = """shared |s day
0:1:0.5 | a:2 b
| c

| c
| a
0:-1:0.25 | b

| a
| b
"""


def test_adf_text(tmp_path: Path) -> None:
    log = read_vw(write(tmp_path, ADF), hash_size=16, interactions=None)
    assert log.has_action_features
    assert log.action_labels == (0, 1, 2)
    assert log.actions.tolist() == [0, 2]
    assert log.rewards.tolist() == [-1.0, 1.0]
    assert log.propensities.tolist() == [0.5, 0.25]
    assert log.available is not None
    assert log.available.tolist() == [[True, True, False], [True, True, True]]
    contexts = np.asarray(log.contexts)
    assert contexts.shape == (2, 3, 16)
    assert contexts[0, 0].tolist() == hash_features(16, ("s^day", 1.0), ("^a", 2.0), ("^b", 1.0))
    assert contexts[0, 1].tolist() == hash_features(16, ("s^day", 1.0), ("^c", 1.0))
    assert not contexts[0, 2].any()
    assert contexts[1, 2].tolist() == hash_features(16, ("^b", 1.0))


def test_decisions_of_one_action_need_their_format(tmp_path: Path) -> None:
    path = write(tmp_path, "0:1:1.0 | a\n\n0:0:1.0 | b\n")
    assert read_vw(path, format="adf").contexts.shape == (2, 1, 128)
    assert "the logged action is number 0; actions count from 1" in message_of(path)


# dsjson


def test_dsjson(tmp_path: Path) -> None:
    other = decision(
        _label_Action=1, _labelIndex=0, _label_cost=0, a=[1, 2], p=[0.5, 0.5],
        c={"_multi": [{"t": ["u", "v"]}, {"n": [0.5, 2], "yes": True, "no": False, "none": None}]},
    )  # fmt: skip
    log = read_vw(write(tmp_path, dsjson(decision(), other), "log.dsjson"), hash_size=16, interactions=None)
    assert log.actions.tolist() == [1, 0]
    assert log.rewards.tolist() == [1.0, 0.0]
    assert log.logging_probabilities is not None
    assert log.logging_probabilities.tolist() == [[0.125, 0.5, 0.375], [0.5, 0.5, 0.0]]
    assert log.available is not None
    assert log.available.tolist() == [[True, True, True], [True, True, False]]
    assert log.times is not None
    contexts = np.asarray(log.contexts)
    assert contexts[0, 0].tolist() == hash_features(16, ("user.age", 3.0), ("f.x", 1.0))
    assert contexts[0, 2].tolist() == hash_features(16, ("user.age", 3.0), ("f.w=b", 1.0))
    assert contexts[1, 0].tolist() == hash_features(16, ("t=u", 1.0), ("t=v", 1.0))
    assert contexts[1, 1].tolist() == hash_features(16, ("n[0]", 0.5), ("n[1]", 2.0), ("yes", 1.0))


def test_words_of_text_fields_are_features(tmp_path: Path) -> None:
    path = write(tmp_path, dsjson(decision(c={"title": {"_text": "to be"}, "_multi": [{}, {}, {}]})), "l.json")
    assert np.asarray(read_vw(path, hash_size=16).contexts)[0, 0].tolist() == hash_features(
        16, ("title._text=to", 1.0), ("title._text=be", 1.0)
    )


def test_actions_may_count_from_zero(tmp_path: Path) -> None:
    path = write(tmp_path, dsjson(decision(a=[1, 2, 0])), "log.json")
    probabilities = read_vw(path).logging_probabilities
    assert probabilities is not None
    assert probabilities.tolist() == [[0.125, 0.5, 0.375]]


def test_dsjson_without_listed_actions(tmp_path: Path) -> None:
    log = read_vw(write(tmp_path, dsjson(decision(c={"x": 2})), "log.json"), hash_size=16)
    assert log.action_labels == (1, 2, 3)
    assert log.actions.tolist() == [1]
    assert np.asarray(log.contexts)[0].tolist() == hash_features(16, ("x", 2.0))


def test_logged_action_without_index(tmp_path: Path) -> None:
    record = decision()
    del record["_labelIndex"]
    assert read_vw(write(tmp_path, dsjson(record), "log.json")).actions.tolist() == [1]


def test_probabilities_of_single_precision_are_made_to_sum_to_one(tmp_path: Path) -> None:
    record = decision(_label_probability=0.33333334, p=[0.33333334, 0.33333334, 0.33333334])
    probabilities = read_vw(write(tmp_path, dsjson(record), "log.json")).logging_probabilities
    assert probabilities is not None
    assert probabilities.sum() == pytest.approx(1, abs=1e-15)


def test_probabilities_missing_once_are_left_out(tmp_path: Path) -> None:
    partial = decision()
    del partial["p"]
    assert read_vw(write(tmp_path, dsjson(decision(), partial), "log.json")).logging_probabilities is None


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    unlabelled = {key: value for key, value in decision().items() if key != "_label_cost"}
    observation = {"RewardValue": 1.0, "EventId": "a"}
    records = [observation, *[decision()] * 3, *[unlabelled] * 2, decision(_skipLearn=True)]
    path = write(tmp_path, "[CHECKPOINT INFO LINE]\n" + dsjson(*records) + "\n", "log.json")
    assert looks_like_vw(str(path))
    log = read_vw(path)
    assert len(log) == log.reading.events == 3
    assert log.reading.lines == 9
    assert {item.reason: item.count for item in log.reading.left_out} == {
        "line of information, such as [CHECKPOINT INFO LINE]": 1,
        "observation without a decision": 1,
        "no _label_cost": 2,
        "marked _skipLearn": 1,
    }
    estimate = bc.evaluate(log, bc.Uniform(), bc.IPS())
    assert any(note.startswith("Reading left out 1 (line of information") for note in estimate.notes)
    report = bc.check(log)
    assert "left out: 1 (line of information" in str(report)
    assert report.to_dict()["reading"]["left_out"][2] == {"reason": "no _label_cost", "count": 2}


@pytest.mark.parametrize(
    ("label", "recorded"),
    [
        (0.24619, [0.24619, 0.33333, 0.42047]),  # sums to 0.99999
        (0.246188, [0.24619, 0.33333, 0.42047]),
        (0.246, [0.2461881, 0.3333333, 0.4204786]),
        (0.33, [0.33, 0.33, 0.33]),
    ],
)
def test_probabilities_are_compared_as_recorded(tmp_path: Path, label: float, recorded: list[float]) -> None:
    record = decision(_label_probability=label, _label_Action=1, _labelIndex=0, a=[1, 2, 3], p=recorded)
    log = read_vw(write(tmp_path, dsjson(record), "log.dsjson"))
    assert log.propensities.tolist() == [label]
    assert log.logging_probabilities is not None
    assert log.logging_probabilities.sum() == pytest.approx(1, abs=1e-12)
    assert log.logging_probabilities[0] == pytest.approx(recorded, abs=0.006)


def test_the_probability_of_the_only_possible_action_is_one(tmp_path: Path) -> None:
    record = decision(_label_probability=0.99999, _label_Action=1, _labelIndex=0, a=[1, 2, 3], p=[0.99999, 0.0, 0.0])
    log = read_vw(write(tmp_path, dsjson(record), "log.dsjson"))
    assert log.propensities.tolist() == [1.0]


def test_probabilities_that_differ_by_more_than_their_digits_are_refused(tmp_path: Path) -> None:
    record = decision(
        _label_probability=0.24621, _label_Action=1, _labelIndex=0, p=[0.24619, 0.5, 0.25381], a=[1, 2, 3]
    )
    message = message_of(write(tmp_path, dsjson(record), "log.dsjson"))
    assert "propensity is 0.24621 but logging_probabilities give the logged action 0.24619" in message


# Interactions


def crossed(first: tuple[str, float], second: tuple[str, float], size: int) -> list[float]:
    """Return the crossed feature of two as Vowpal Wabbit hashes it: ``(h1 * 16777619) xor h2``."""
    hashes = [murmurhash3_32(name.encode(), seed=0, positive=True) for name, _ in (first, second)]
    code = ((hashes[0] * 16777619) % 2**32) ^ hashes[1]
    signed = code - 2**32 if code >= 2**31 else code
    row = [0.0] * size
    row[abs(signed) % size] = (1.0 if signed >= 0 else -1.0) * first[1] * second[1]
    return row


def test_shared_features_are_crossed_with_those_of_the_action(tmp_path: Path) -> None:
    path = write(tmp_path, "shared |User age:3\n0:1:0.5 |Article x:2\n|Article y\n")
    plain, default, pair, everything = (
        np.asarray(read_vw(path, hash_size=64, interactions=interactions).contexts)
        for interactions in (None, "auto", ["UA"], "::")
    )
    age, x, y = ("User^age", 3.0), ("Article^x", 2.0), ("Article^y", 1.0)
    assert default[0, 0].tolist() == (plain[0, 0] + crossed(age, x, 64)).tolist()
    assert default[0, 1].tolist() == (plain[0, 1] + crossed(age, y, 64)).tolist()
    assert np.array_equal(pair, default)
    assert everything[0, 0].tolist() == (default[0, 0] + crossed(age, age, 64) + crossed(x, x, 64)).tolist()
    assert read_vw(path, interactions=["UA"]).reading.interactions == ("UA",)
    assert read_vw(path).reading.interactions == ("shared x action",)


def test_swapping_users_changes_choices(tmp_path: Path) -> None:
    """Without crossing, what a linear policy learns about users is the same for all actions and cancels."""

    def log_for(user: str, **options: Any) -> Any:
        records = [
            decision(
                c={"U": {"likes": user}, "_multi": [{"A": {"topic": "art"}}, {"A": {"topic": "sport"}}]},
                a=[1, 2],
                p=[0.5, 0.5],
                _label_Action=1 + i % 2,
                _labelIndex=i % 2,
                _label_cost=-1.0 if ("art", "sport")[i % 2] == user else 0.0,
            )
            for i in range(20)
        ]
        return read_vw(write(tmp_path, dsjson(*records), "log.dsjson"), **options)

    for interactions, differs in ((None, False), ("auto", True)):
        users = [log_for(user, interactions=interactions) for user in ("art", "sport")]
        policy = bc.EpsilonGreedy(0.0)
        policy.start(2, 128, np.random.default_rng(0))
        for log in users:
            policy.learn(log.contexts, log.actions, log.rewards, log.propensities)
        choices = [policy.probabilities(log.contexts[:1]).argmax() for log in users]
        assert (choices[0] != choices[1]) == differs
        assert not differs or choices == [0, 1]


def test_events_are_in_the_order_of_timestamps(tmp_path: Path) -> None:
    stamps = ["2024-01-01T00:00:00.5000000Z", "2024-01-01T00:00:00Z", "2023-12-31T23:59:59Z"]
    records = [decision(Timestamp=stamp, _label_cost=-i) for i, stamp in enumerate(stamps)]
    log = read_vw(write(tmp_path, dsjson(*records), "log.dsjson"))
    assert log.rewards.tolist() == [2.0, 1.0, 0.0]
    assert "Events are in the order of their times (2 of 3 were moved)." in log.reading.notes()


@pytest.mark.parametrize(
    ("interactions", "message"),
    [
        (["UAX"], "interactions holds 'UAX'; give pairs of first letters of namespaces as for -q"),
        ([3], "interactions holds 3; give pairs"),
        (["xf"], "no decision has features in both namespaces of 'xf'; the first letters of namespaces are 'f', 'u'"),
    ],
)
def test_invalid_interactions(tmp_path: Path, interactions: Any, message: str) -> None:
    assert message in message_of(write(tmp_path, dsjson(decision()), "log.dsjson"), interactions=interactions)


def test_lines_without_a_labelled_decision_are_left_out(tmp_path: Path) -> None:
    unlabelled = decision()
    del unlabelled["_label_cost"]
    lines = dsjson(decision(_skipLearn=True), {"RewardValue": 1, "EventId": "x"}, unlabelled, decision())
    path = write(tmp_path, "[CHECKPOINT INFO LINE]\n\n" + lines, "log.json")
    assert len(read_vw(path)) == 1


# Errors

TAKEN_TWICE = "0:1:0.5 | a\n0:1:0.5 | b\n| c\n"
BAD: list[tuple[str, str]] = [
    ("", "no decision with action, cost and probability is in it"),
    ("shared | s\n| a\n| b\n", "no decision with action, cost and probability is in it"),
    (dsjson(decision(_skipLearn=True)), "no decision with action, cost and probability is in it"),
    ("1:0:0.5 | a\n1:0:zero | a\n", "line 2: cannot be read as cb (could not convert string to float: 'zero')"),
    ("1:0:0.5 | a\n1:0.5 | a\n", "line 2: cannot be read as cb (the label '1:0.5' is not action:cost:probability)"),
    ("1:0:0.5 | a\nx:0:0.5 | a\n", "line 2: cannot be read as cb (the action 'x' is not a whole number)"),
    ("1:0:0.5 | a:b\n", "line 1: cannot be read as cb (could not convert string to float: 'b')"),
    ("1:0:0.5 2:1:0.5 | a\n", "line 1: cannot be read as cb (two actions of one decision carry a cost"),
    (TAKEN_TWICE, "2 actions of one decision carry a cost; only the one taken may"),
    ("1:0:0.5 | a\n1:0:1.5 | a\n", "line 2): propensity is 1.5; it must lie in (0, 1]"),
    ("1:nan:0.5 | a\n", "line 1): reward is nan"),
    ("1:0:0.5 | a:inf\n", "line 1): context column"),
    ("1:0:0.5 | a\n999999999:0:0.5 | a\n", "line 2: action number 999999999; give n_actions if there are so many"),
    ("ca 185.1:0.6:0.2 | a\n", "continuous actions (cats) are not supported"),
    ("ccb shared | s\nccb action | a\nccb slot 0:0.8:1.0 | z\n", "decisions on several slots (ccb) are not supported"),
    ("slates shared 0.8 | s\n", "decisions on several slots (slates) are not supported"),
    ('{"_label_cost": 1,\n', "line 1: cannot be read as dsjson (Expecting"),
    (dsjson(decision()) + '"text"\n', "line 2: cannot be read as dsjson (the line is not a JSON object)"),
    (dsjson({"_label_ca": {"action": 1.5}, "c": {}}), "line 1: cannot be read as dsjson (continuous actions (cats)"),
    (dsjson({"_outcomes": [], "c": {}}), "decisions on several slots (ccb, slates) are not supported"),
    (dsjson(decision(c={"_slots": []})), "decisions on several slots (ccb, slates) are not supported"),
    (dsjson(decision(o=[{"v": {"v=click": 1}}])), "interaction-grounded feedback (igl) is not supported"),
    (dsjson(decision(o=[{"v": 1, "_definitely_bad": False}])), "interaction-grounded feedback (igl)"),
    (dsjson(decision(_label_probability=None)), "_label_probability is missing; every decision needs"),
    (dsjson(decision(_label_Action=None, _labelIndex=None)), "_label_Action is missing"),
    (dsjson(decision(_label_Action=0, _labelIndex=None)), "the logged action is number 0; actions count from 1"),
    (dsjson(decision(_labelIndex=float("inf"))), "cannot be read as dsjson (cannot convert float infinity to integer)"),
    (dsjson(decision(_label_cost="dear")), "could not convert string to float: 'dear'"),
    (dsjson(decision(_label_cost=True)), "True is not a number"),
    (dsjson(decision(_label_cost=10**400)), "cannot be read as dsjson (a number is too large)"),
    (dsjson(decision(c=3)), "c, the context, is not a JSON object"),
    (dsjson(decision(c={"_multi": 3})), "_multi is 3; it must be a list"),
    (dsjson(decision(a=[1, 2])), "a lists the actions [1, 2] but p has 3 probabilities"),
    (dsjson(decision(a=[1, 1, 2])), "a lists the actions [1, 1, 2] but p has 3 probabilities"),
    (dsjson(decision(c={"_multi": [{}]})), "line 1: the logged action is number 2, but only 1 are listed"),
    (dsjson(decision(c={"_multi": [{}, {}]})), "line 1: 2 actions are listed, but 3 probabilities"),
    (dsjson(decision(p=[0.25, 0.5, 0.25])), "line 1): propensity is 0.5 but logging_probabilities give the logged"),
    (dsjson(decision(p=[0.5, 0.5, 0.5])), "line 1): logging_probabilities are"),
    (dsjson(decision(), decision(c={"x": 1})), "line 2: some decisions list features of their actions and others"),
    (
        dsjson(decision(pdrop=0.5), decision(pdrop=0.75)),
        "line 2: pdrop is 0.75, and 0.5 before; a log that was subsampled",
    ),
    (dsjson(decision(c={"x": "\ud800"})), "the name of a feature cannot be hashed"),
    ('{"c": ' + "[" * 100_000 + "\n", "cannot be read as dsjson ("),
]


@pytest.mark.parametrize(("content", "message"), BAD, ids=[message[:50] for _, message in BAD])
def test_each_fault_has_its_message(tmp_path: Path, content: str, message: str) -> None:
    path = write(tmp_path, content)
    actual = message_of(path)
    assert message in actual
    assert str(path) in actual or "hashed" in actual


def test_files_that_are_missing_or_broken(tmp_path: Path) -> None:
    assert message_of(tmp_path / "none.vw") == f"no file matches '{tmp_path}/none.vw'"
    assert message_of([]) == "the list of files is empty; name at least one"
    path = tmp_path / "log.vw.gz"
    path.write_bytes(gzip.compress(b"1:0:0.5 | a\n" * 1000)[:-9])
    assert f"{path}" in message_of(path)
    path.write_bytes(b"not packed")
    assert f"{path}: cannot be read as text (Not a gzipped file" in message_of(path)


def test_invalid_options(tmp_path: Path) -> None:
    path = write(tmp_path, "1:0:0.5 | a\n")
    with pytest.raises(OptionError, match="hash_size is 0; it must be a whole number, at least 1"):
        read_vw(path, hash_size=0)
    with pytest.raises(OptionError, match="format is 'csv'; it must be one of 'dsjson', 'cb', 'adf'"):
        read_vw(path, format="csv")


# Logs from the tests of Vowpal Wabbit, if BACKCAST_DATA is set, and one of each format written here


def test_files_are_read_or_refused(tmp_path: Path) -> None:
    paths = [write(tmp_path, dsjson(decision()), "one.json"), write(tmp_path, ADF, "two.dat")]
    paths.append(write(tmp_path, dsjson({"_label_ca": {"action": 1.5}, "c": {}}), "cats.json"))
    data = os.environ.get("BACKCAST_DATA")
    for path in [*paths, *(sorted(Path(data, "vw").glob("*")) if data else [])]:
        if path.name.startswith(("cats", "ccb", "igl", "LICENSE", "b1848")):
            assert str(path) in message_of(path)
        else:
            assert len(read_vw(path)) > 0
