"""The embedded news log of ``backcast demo``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import backcast as bc
from backcast.demo_data import ARTICLES, COLUMNS, FEATURES, news_log, write_news
from backcast.errors import OptionError


class TestDemoLog:
    def test_same_seed_same_log(self) -> None:
        first, second, other = news_log(500, seed=1), news_log(500, seed=1), news_log(500, seed=2)
        np.testing.assert_array_equal(first.contexts, second.contexts)
        np.testing.assert_array_equal(first.rewards, second.rewards)
        assert (first.actions != other.actions).any()

    def test_file_gives_back_the_same_log(self, tmp_path: Path) -> None:
        log = news_log(500)
        path = write_news(tmp_path / "news.csv", log)
        read = bc.read_log(
            path,
            context=list(FEATURES),
            action="article",
            reward="clicked",
            propensity="probability",
            action_labels=ARTICLES,
        )
        assert path.read_text().splitlines()[0] == ",".join(COLUMNS)
        for part in ("contexts", "actions", "rewards", "propensities"):
            np.testing.assert_array_equal(getattr(read, part), getattr(log, part))

    def test_a_missing_folder_is_an_option_error(self, tmp_path: Path) -> None:
        with pytest.raises(OptionError, match="cannot be written"):
            write_news(tmp_path / "missing" / "news.csv", news_log(5))

    def test_it_looks_like_a_news_page(self) -> None:
        log = news_log()
        assert 0.02 < log.rewards.mean() < 0.2
        np.testing.assert_allclose(log.contexts[:, :5].sum(axis=1), 1)
        # Mean of 1/p over events is K where every action has support; its standard error here is about 0.056, so that
        # five of them leave a false alarm less than one chance in a million.
        assert abs((1 / log.propensities).mean() - len(ARTICLES)) < 0.28
