"""Vowpal Wabbit's own policy beside linear policies of backcast, on one log; writes bench/results/vw_news.md.

    python -m bench.accuracy.vw_news [--events 4000] [--timing]

Readers in six segments see 5 to 15 articles; which topic is clicked depends on the segment, so that a policy which
ranks articles alike for all readers is far from the best. The log is written as dsjson and read by both systems. Values
are exact: click probabilities of the simulation, averaged over 4,000 other decisions. Needs the package vowpalwabbit.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import backcast as bc
from bench.common.machine import describe_provenance, provenance
from bench.common.markdown import markdown_table
from bench.common.output import RESULTS, print_status, write_json, write_page

SEED = 23
SEGMENTS, TOPICS = 6, 8
CLICK, LIKED, FRESH = 0.04, 0.30, 0.05  # click probability, and what a liked topic and a fresh article add
TEST_EVENTS = 4_000
VW_OPTIONS = "--cb_explore_adf -q UA --epsilon 0.2 --dsjson --quiet"
HASH_SIZES = (128, 256)
TIMED_EVENTS = 1000


class News(NamedTuple):
    """Decisions: reader, candidates (-1 beyond the last), and the click probability of each candidate."""

    segment: Any
    device: Any
    topics: Any
    fresh: Any
    clicks: Any

    @property
    def listed(self) -> Any:
        """Mask of the candidates."""
        return self.topics >= 0


def draw_news(n: int, rng: np.random.Generator, candidates: tuple[int, int] = (5, 15)) -> News:
    """Draw decisions; each segment likes two topics, and topics differ a little in how popular they are."""
    low, high = candidates
    segment, device = rng.integers(SEGMENTS, size=n), rng.integers(2, size=n)
    topics = rng.integers(TOPICS, size=(n, high))
    topics[np.arange(high) >= rng.integers(low, high + 1, size=n)[:, None]] = -1
    fresh = rng.random((n, high)) < 0.5
    liked = (topics == segment[:, None]) | (topics == (segment[:, None] + 3) % TOPICS)
    clicks = CLICK + 0.01 * topics + LIKED * liked + FRESH * fresh
    return News(segment, device, topics, fresh, np.where(topics >= 0, clicks, 0.0))


def popular_choice(news: News) -> Any:
    """Return the candidate of the most clicks over all readers: the best choice that does not depend on the reader."""
    liked_by = np.array([(t < SEGMENTS) + ((t - 3) % TOPICS < SEGMENTS) for t in range(TOPICS)]) / SEGMENTS
    score = 0.01 * news.topics + LIKED * liked_by[news.topics] + FRESH * news.fresh
    return np.where(news.listed, score, -1.0).argmax(axis=1)


def write_log(path: Path, news: News, rng: np.random.Generator, exploration: float) -> None:
    """Write the log of a logger that shows a popular article, and with this probability any candidate."""
    greedy, n_candidates = popular_choice(news), news.listed.sum(axis=1)
    with path.open("w", encoding="utf-8") as file:
        for k, m in enumerate(n_candidates.tolist()):
            probabilities = np.full(m, exploration / m)
            probabilities[greedy[k]] += 1 - exploration
            action = int(rng.choice(m, p=probabilities))
            order = [action, *(a for a in range(m) if a != action)]  # the action taken is listed first
            record = {
                "_label_cost": -1.0 if rng.random() < news.clicks[k, action] else 0.0,
                "_label_probability": round(float(probabilities[action]), 7),
                "_label_Action": action + 1,
                "_labelIndex": action,
                "Timestamp": str(np.datetime64("2026-01-01T00:00:00") + np.timedelta64(k, "s")) + "Z",
                "a": [a + 1 for a in order],
                "p": [round(float(probabilities[a]), 7) for a in order],
                "c": {
                    "User": {"segment": f"s{news.segment[k]}", "device": f"d{news.device[k]}"},
                    "_multi": [
                        {"Article": {"topic": f"t{news.topics[k, a]}", **({"fresh": 1} if news.fresh[k, a] else {})}}
                        for a in range(m)
                    ],
                },
            }
            file.write(json.dumps(record) + "\n")


def linear_choice(log: bc.Log, test: bc.Log) -> Any:
    """Return the choices of the greedy policy of a ridge regression of the rewards on the features."""
    predicted = bc.Joint().fit(log).predict(test.contexts)
    return np.where(True if test.available is None else test.available, predicted, -np.inf).argmax(axis=1)


def vw_choice(log_path: Path, test_path: Path) -> Any:
    """Return the choices of Vowpal Wabbit's greedy policy after one pass over the log."""
    from vowpalwabbit import Workspace

    model = tempfile.mktemp(suffix=".model")
    Workspace(f"{VW_OPTIONS} -d {log_path} -f {model}").finish()
    workspace = Workspace(f"--dsjson --quiet -t -i {model}")
    choices = []
    for line in test_path.read_text().splitlines():
        examples = workspace.parse(line)
        probabilities = workspace.predict(examples)
        choices.append(int(np.argmax(probabilities)))
        workspace.finish_example(examples)
    return np.array(choices)


def time_pass(log: bc.Log, *, as_sparse: bool) -> float:
    """Return the seconds of one pass of clock replay with LinUCB over 100 rounds, compiled code warm."""
    from backcast._kernels import contexts

    share = contexts.SPARSE_SHARE
    contexts.SPARSE_SHARE = share if as_sparse else -1.0
    try:
        seconds = []
        for n_events, horizon in ((50, 2), (TIMED_EVENTS, 100)):
            start = time.perf_counter()
            bc.evaluate(
                log[:n_events], bc.LinUCB(0.3), bc.ClockReplay(), horizon=horizon, reward_model=0.2, replicates=None
            )
            seconds.append(time.perf_counter() - start)
        return seconds[-1]
    finally:
        contexts.SPARSE_SHARE = share


def main() -> None:
    """Run the comparison and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=4000)
    parser.add_argument("--timing", action="store_true", help="time passes over dense and sparse rows (minutes)")
    arguments = parser.parse_args()
    n_events = arguments.events
    rng = np.random.default_rng(SEED)
    news, test_news = draw_news(n_events, rng), draw_news(TEST_EVENTS, rng)

    def value_of(choices: Any) -> float:
        return float(test_news.clicks[np.arange(TEST_EVENTS), choices].mean())

    values: dict[str, float] = {
        "the best possible": value_of(test_news.clicks.argmax(axis=1)),
        "the best that does not depend on the reader": value_of(popular_choice(test_news)),
        "uniform": float((test_news.clicks.sum(axis=1) / test_news.listed.sum(axis=1)).mean()),
    }
    passes: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        log_path, test_path = Path(folder, "log.dsjson"), Path(folder, "test.dsjson")
        write_log(log_path, news, rng, exploration=0.2)
        write_log(test_path, test_news, rng, exploration=0.2)
        print_status("Vowpal Wabbit")
        values[f"Vowpal Wabbit, greedy, `{VW_OPTIONS}`"] = value_of(vw_choice(log_path, test_path))
        for hash_size in HASH_SIZES:
            print_status(f"hash_size {hash_size}")
            options: dict[str, Any] = {"hash_size": hash_size, "n_actions": 15}
            logs = {}
            for name, pairs in (("no crossing", None), ("crossed", "auto")):
                logs[name], test = (bc.read_vw(path, interactions=pairs, **options) for path in (log_path, test_path))
                ridge = f"backcast, greedy ridge, {name}, hash_size {hash_size}"
                values[ridge] = value_of(linear_choice(logs[name], test))
            if arguments.timing and hash_size == HASH_SIZES[0]:
                passes = {
                    "not crossed, dense rows": time_pass(logs["no crossing"], as_sparse=False),
                    "crossed, dense rows": time_pass(logs["crossed"], as_sparse=False),
                    "crossed, sparse rows (as used)": time_pass(logs["crossed"], as_sparse=True),
                }
    command = f"python -m bench.accuracy.vw_news --events {n_events}{' --timing' if arguments.timing else ''}"
    record = provenance(command)
    write_json(RESULTS / "vw_news.json", {"provenance": record, "values": values, "seconds_per_pass": passes})
    page = [
        "# A log of Vowpal Wabbit",
        f"Click rate of policies fitted to a log of {n_events:,} decisions (dsjson, 5 to 15 candidates, one in five "
        f"chosen at random); exact values over {TEST_EVENTS:,} other decisions.",
        markdown_table(["policy", "value"], [[name, f"{value:.4f}"] for name, value in values.items()]),
    ]
    if passes:
        rows = [[name, f"{seconds:.1f}"] for name, seconds in passes.items()]
        page += [
            f"One pass of `ClockReplay` with `LinUCB(0.3)` over 100 rounds; {TIMED_EVENTS:,} events, K = 15 and 128 "
            "features:",
            markdown_table(["features of actions", "seconds"], rows),
        ]
    print(write_page(RESULTS / "vw_news.md", [*page, describe_provenance(record)]))


if __name__ == "__main__":
    main()
