"""Logs of the Open Bandit Dataset."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from backcast.errors import BackcastError, OptionError
from backcast.io._arrow import hash_column
from backcast.io.obd import read_obd

HEAD = ",timestamp,item_id,position,click,propensity_score,user_feature_0,user-item_affinity_0,user-item_affinity_1\n"
ROWS = (
    "0,2019-11-24 00:00:34.7+00:00,1,3,0,0.25,ab,0.5,0.0\n"
    "1,2019-11-24 00:00:35.7+00:00,0,1,1,0.75,cd,0.0,2.0\n"
    "2,2019-11-24 00:00:36.7+00:00,1,1,0,0.25,ab,0.0,0.0\n"
)


def campaign(folder: Path, rows: str = ROWS) -> Path:
    (folder / "all.csv.gz").write_bytes(gzip.compress((HEAD + rows).encode()))
    (folder / "item_context.csv").write_text(",item_id,item_feature_0\n0,0,0.5\n1,1,0.25\n2,2,0.25\n")
    return folder


def test_campaign(tmp_path: Path) -> None:
    log = read_obd(campaign(tmp_path), hash_size=4)
    assert (log.n_actions, log.n_features, log.reward_range) == (3, 1 + 4 + 2, (0.0, 1.0))
    assert log.actions.tolist() == [1, 0, 1]
    assert log.rewards.tolist() == [0.0, 1.0, 0.0]
    assert log.propensities.tolist() == [0.25, 0.75, 0.25]
    contexts = np.asarray(log.contexts)
    assert contexts[:, 0].tolist() == [3, 1, 1]
    buckets = hash_column(pa.array(["ab", "cd", "ab"]), "user_feature_0", 4)
    assert contexts[:, 1:5].argmax(axis=1).tolist() == buckets.tolist()
    assert contexts[:, 5:].tolist() == [[0.5, 0.0], [0.0, 2.0], [0.0, 0.0]]
    assert log.times is not None
    assert (np.diff(log.times) > np.timedelta64(0, "s")).all()


@pytest.mark.parametrize("hash_size", [4, 1000])
def test_one_position(tmp_path: Path, hash_size: int) -> None:
    log = read_obd(campaign(tmp_path), position=1, affinities=False, hash_size=hash_size)
    assert log.rows.tolist() == [1, 2]
    assert log.n_features == hash_size
    assert log.contexts.sum() == 2


def test_faults(tmp_path: Path) -> None:
    with pytest.raises(
        BackcastError, match=r"it must hold a log such as all.csv, and item_context.csv; it holds no such files"
    ):
        read_obd(tmp_path)
    campaign(tmp_path)
    with pytest.raises(OptionError, match="position is 4; it must be 1, 2, 3, or None for all"):
        read_obd(tmp_path, position=4)
    with pytest.raises(BackcastError, match="no event is at position 2"):
        read_obd(tmp_path, position=2)
    (tmp_path / "item_context.csv").write_text("a,b\n1,2\n")
    with pytest.raises(BackcastError, match=r"item_context.csv: there is no column 'item_id'"):
        read_obd(tmp_path)
    (tmp_path / "item_context.csv").write_text("item_id\n0\n")
    with pytest.raises(BackcastError, match=r"row 0 .*all.csv.gz.: action 1 is outside 0..0"):
        read_obd(tmp_path)
    (tmp_path / "more.csv").write_text("")
    with pytest.raises(BackcastError, match=r"it holds item_context.csv, more.csv, all.csv.gz"):
        read_obd(tmp_path)


def test_uniform_campaigns_pass_the_harmonic_mean_test(tmp_path: Path) -> None:
    third = ROWS.replace(",0.25,", ",0.3333333333333333,").replace(",0.75,", ",0.3333333333333333,")
    data = os.environ.get("BACKCAST_DATA")
    for folder in [campaign(tmp_path, third), *(sorted(Path(data, "obd").glob("random/*")) if data else [])]:
        log = read_obd(folder)
        assert (1 / log.propensities).mean() == pytest.approx(log.n_actions)
