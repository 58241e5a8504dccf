"""From the words of a command to estimates: read the log, make the policies, put the questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from backcast.cli.progress import progress_bar
from backcast.cli.specs import EVALUATORS, INTERVALS, POLICIES, build
from backcast.errors import OptionError

if TYPE_CHECKING:
    from backcast.estimate import Estimate
    from backcast.log import Log

__all__ = ["Job", "LogFile", "facts_about", "make_evaluator", "make_interval", "make_policies", "run_jobs"]


@dataclass(frozen=True)
class LogFile:
    """Where a log is, and which of its columns play which part."""

    path: str
    context: tuple[str, ...]
    action: str
    reward: str
    propensity: str
    format: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def read(self) -> Log:
        """The log, checked."""
        import backcast as bc

        return bc.read_log(
            self.path,
            context=list(self.context),
            action=self.action,
            reward=self.reward,
            propensity=self.propensity,
            format=self.format,
            **self.options,
        )


@dataclass(frozen=True)
class Job:
    """A policy to evaluate, and how."""

    policy: Any
    evaluator: Any = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)


def make_policies(texts: list[str]) -> dict[str, Any]:
    """Policies by the words they were asked for in."""
    policies: dict[str, Any] = {}
    for text in texts:
        if text in policies:
            raise OptionError(f"the policy {text!r} is given twice; results are told apart by these words")
        policies[text] = build(text, POLICIES)
    return policies


def make_evaluator(text: str) -> Any:
    """An evaluator, or "auto" as it is."""
    return text if text == "auto" else build(text, EVALUATORS)


def make_interval(text: str | None) -> Any:
    """An interval, or None for the evaluator's own."""
    return None if text is None else build(text, INTERVALS)


def run_jobs(log: Log, jobs: Mapping[str, Job], *, quiet: bool) -> dict[str, Estimate]:
    """An estimate for each job, with a progress bar."""
    import backcast as bc

    estimates: dict[str, Estimate] = {}
    with progress_bar(len(log), len(jobs), quiet=quiet) as bar:
        for name, job in jobs.items():
            bar.begin(name)
            estimates[name] = bc.evaluate(log, job.policy, job.evaluator, progress=bar.advance, **job.options)
    return estimates


def facts_about(log: Log, source: str) -> dict[str, Any]:
    """What the log is, for the top of a table and the end of a report."""
    return {
        "log": source,
        "events": len(log),
        "actions": log.n_actions,
        "features": log.n_features,
        "average reward in the log": float(log.rewards.mean()),
    }
