"""A news page: which learning policy should choose the article in the top slot?

The system of the page showed one of five articles to each visitor and recorded its probability. Four policies that
learn from clicks are replayed on that log and compared in pairs; the report is written to a file.

    python examples/news.py [report.html]
"""

from __future__ import annotations

import sys

import backcast as bc
from backcast.demo_data import news_log

HORIZON = 150  # visitors per policy
BATCH = 10  # clicks arrive in batches, so policies are updated every ten visitors


def main(arguments: list[str]) -> None:
    # for your own log: bc.read_log("news.parquet", context=[...], action=..., reward=..., propensity=...)
    log = news_log()
    print(f"{log}: {log.rewards.mean():.3f} clicks per visitor under the system of the page.")

    health = bc.check(log)
    print(f"Health of the log: {health.verdict}.")

    policies = {
        "random": bc.EpsilonGreedy(1.0, batch_size=BATCH),
        "epsilon-greedy": bc.EpsilonGreedy(0.1, batch_size=BATCH),
        "softmax": bc.Softmax(0.05, batch_size=BATCH),
        "linucb": bc.LinUCB(0.3, batch_size=BATCH),
    }
    # the system did not learn and visitors arrived independently: the order of the log has no meaning
    comparison = bc.compare(log, policies, horizon=HORIZON, replicates=90, exchangeable=True)
    print(comparison)

    best, probability = comparison.ranking[0]
    print(f"\n{best} is the best of them with probability {probability:.0%}.")
    if arguments:
        path = bc.save_report(comparison, arguments[0], about={"log": "a news page"}, health=health)
        print(f"The report is in {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
