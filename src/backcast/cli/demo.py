"""The demo: four policies on the embedded log."""

from __future__ import annotations

from typing import Any

from backcast.cli.output import say
from backcast.cli.run import Job, facts_about, run_jobs

__all__ = ["run_demo", "write_log"]

HORIZON = 400


def write_log(path: str, *, quiet: bool) -> None:
    """Write the embedded log as CSV, and say how it is read."""
    from backcast.demo import FEATURES, news_log, write_news

    where = write_news(path, news_log())
    if not quiet:
        say(f"The log is in {where}. Context: {', '.join(FEATURES)}.")
        say("Action: article. Reward: clicked. Propensity: probability.")


def run_demo(seed: int, *, quiet: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Estimates of four policies, and what the log is."""
    import backcast as bc
    from backcast.demo import news_log

    if not quiet:
        say(f"A week of a news page, replayed: what would each policy have earned from its first {HORIZON} visitors?")
    log = news_log()
    options = {"seed": seed, "horizon": HORIZON}
    # the logger shows every article now and then, so the worst-case multiplier, which has no bias, can be afforded
    jobs = {
        "uniform": Job(bc.Uniform(), "auto", {"seed": seed}),
        "epsilon-greedy": Job(bc.EpsilonGreedy(0.1), bc.WC(), options),
        "softmax": Job(bc.Softmax(0.05), bc.WC(), options),
        "linucb": Job(bc.LinUCB(0.3), bc.WC(), options),
    }
    return run_jobs(log, jobs, quiet=quiet), facts_about(log, "embedded: a news page")
