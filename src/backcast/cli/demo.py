"""The demo: four policies on the embedded log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backcast.cli.run import Asked, facts_about, run_comparison
from backcast.cli.speech import say

if TYPE_CHECKING:
    from backcast.comparison import Comparison

__all__ = ["run_demo", "write_log"]

# some seconds on two cores; the policies are updated after every ten visitors
HORIZON, BATCH = 200, 10
REPLICATES, JOBS = 240, 2


def write_log(path: str, *, quiet: bool) -> None:
    """Write the embedded log as CSV, and say how it is read."""
    from backcast.demo import FEATURES, news_log, write_news

    where = write_news(path, news_log())
    if not quiet:
        say(f"The log is in {where}. Context: {', '.join(FEATURES)}.")
        say("Action: article. Reward: clicked. Propensity: probability.")


def run_demo(seed: int, *, quiet: bool) -> tuple[Comparison, dict[str, Any]]:
    """Four policies compared, and what the log is."""
    import backcast as bc
    from backcast.demo import news_log

    if not quiet:
        say(f"A day of a news page, replayed: what would each policy have earned from its first {HORIZON} visitors?")
    log = news_log()
    policies = {
        # three of one kind: on a fresh machine every other kind costs some seconds of compilation
        "random": bc.EpsilonGreedy(1.0, batch_size=BATCH),
        "half random": bc.EpsilonGreedy(0.5, batch_size=BATCH),
        "epsilon-greedy": bc.EpsilonGreedy(0.1, batch_size=BATCH),
        "linucb": bc.LinUCB(0.3, batch_size=BATCH),
    }
    # the page's own system did not learn that day and visitors came as they like, so the order means nothing
    options = {"horizon": HORIZON, "replicates": REPLICATES, "exchangeable": True, "n_jobs": JOBS, "seed": seed}
    found = run_comparison(log, policies, Asked("auto", options), quiet=quiet)
    return found, facts_about(log, "embedded: a news page")
