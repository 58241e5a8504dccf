"""A news page: which learning policy should choose the article in the top slot?

The page's own system showed one of five articles to each visitor and wrote down with which probability. Four policies
that learn from clicks are replayed on that log, compared in pairs, and the report is written for the editors.

    python examples/news.py [report.html]
"""

from __future__ import annotations

import sys

import backcast as bc
from backcast.demo_data import news_log

HORIZON = 150  # visitors that each policy would have served
BATCH = 10  # clicks arrive in batches, so policies are updated every ten visitors


def main(arguments: list[str]) -> None:
    log = (
        news_log()
    )  # with your own: bc.read_log("news.parquet", context=[...], action=..., reward=..., propensity=...)
    print(f"{log}: {log.rewards.mean():.3f} clicks a visitor under the page's own system.")

    health = bc.check(log)
    print(f"Health of the log: {health.verdict}.")

    policies = {
        "random": bc.EpsilonGreedy(1.0, batch_size=BATCH),
        "epsilon-greedy": bc.EpsilonGreedy(0.1, batch_size=BATCH),
        "softmax": bc.Softmax(0.05, batch_size=BATCH),
        "linucb": bc.LinUCB(0.3, batch_size=BATCH),
    }
    # the page's own system did not learn that day and visitors came as they like: the order means nothing
    found = bc.compare(log, policies, horizon=HORIZON, replicates=90, exchangeable=True)
    print(found)

    best, chance = found.ranking[0]
    print(f"\n{best} is the best of them with probability {chance:.0%}.")
    if arguments:
        print(f"The report is in {bc.save_report(found, arguments[0], about={'log': 'a news page'}, health=health)}")


if __name__ == "__main__":
    main(sys.argv[1:])
