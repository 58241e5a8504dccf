"""From the words of a command to estimates: read the log, make the policies, put the questions."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from backcast.cli.output import say
from backcast.cli.progress import Bar, progress_bar
from backcast.cli.specs import EVALUATORS, INTERVALS, POLICIES, build
from backcast.errors import OptionError

if TYPE_CHECKING:
    from backcast.comparison import Comparison
    from backcast.estimate import Estimate
    from backcast.log import Log

__all__ = [
    "Asked",
    "LogFile",
    "facts_about",
    "make_evaluator",
    "make_interval",
    "make_policies",
    "make_replicates",
    "run_comparison",
    "run_evaluations",
    "warnings_in_one_line",
]

VOWPAL_WABBIT = ("vw", "dsjson", "cb", "adf")

# what replicates come to, for a bar: passes over all events, and subsets of a quarter of them
WHOLE_PASSES, USUAL_REPLICATES = 16, 300


@dataclass(frozen=True)
class LogFile:
    """Where a log is, and which of its columns play which part."""

    path: str
    context: tuple[str, ...]
    action: str | None
    reward: str | None
    propensity: str | None
    format: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def read(self) -> Log:
        """The log, checked."""
        import backcast as bc

        if self._of_vowpal_wabbit:
            return bc.read_vw(self.path, format=None if self.format == "vw" else self.format, **self.options)
        return bc.read_log(
            self.path,
            context=list(self.context),
            action=self._column("action"),
            reward=self._column("reward"),
            propensity=self._column("propensity"),
            format=self.format,
            **self.options,
        )

    @property
    def _of_vowpal_wabbit(self) -> bool:
        named = re.search(r"\.(vw|dsjson)(\.(gz|bz2|xz))?$", self.path) is not None
        if not (named if self.format is None else self.format in VOWPAL_WABBIT):
            return False
        for name in ("context", "action", "reward", "propensity"):
            if getattr(self, name):
                raise OptionError(f"--{name} is given and logs of Vowpal Wabbit have no columns; leave it out")
        return True

    def _column(self, name: str) -> str:
        column: str | None = getattr(self, name)
        if column is None:
            raise OptionError(f"--{name} is missing; say which column of {self.path!r} holds it")
        return column


@dataclass(frozen=True)
class Asked:
    """How policies are to be evaluated: an evaluator, and the options of ``evaluate`` or ``compare``."""

    evaluator: Any = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)

    def passes(self, policies: Iterable[Any]) -> int:
        """How many times the log is gone through, about, for a progress bar."""
        from backcast.evaluators.clock import ClockReplay
        from backcast.policies.protocol import is_learning

        replicates = self.options.get("replicates", "default")
        by_default = isinstance(self.evaluator, ClockReplay) or (
            self.evaluator == "auto"
            and self.options.get("horizon") is not None
            and self.options.get("exchangeable") is not False
            and any(is_learning(policy) for policy in policies)
        )
        if replicates is None or (replicates == "default" and not by_default):
            return 1
        return WHOLE_PASSES + (replicates if isinstance(replicates, int) else USUAL_REPLICATES) // 4


def make_policies(texts: list[str]) -> dict[str, Any]:
    """Policies by the names they were given, else by the words they were asked for in.

    >>> make_policies(["random=uniform", "fixed:probabilities=[0.5,0.5]"])
    {'random': Uniform(), 'fixed:probabilities=[0.5,0.5]': Fixed([0.5, 0.5])}
    """
    policies: dict[str, Any] = {}
    for text in texts:
        # a sign of equality after a colon belongs to an option
        named = re.fullmatch(r"\s*([^:=]*[^:=\s])\s*=(.*)", text)
        name, words = named.groups() if named else (text, text)
        if name in policies:
            raise OptionError(f"the policy {name!r} is given twice; results are told apart by these words")
        policies[name] = build(words, POLICIES)
    return policies


def make_evaluator(text: str) -> Any:
    """An evaluator, or "auto" as it is."""
    return text if text == "auto" else build(text, EVALUATORS)


def make_interval(text: str | None) -> Any:
    """An interval, or None for the evaluator's own."""
    return None if text is None else build(text, INTERVALS)


def make_replicates(text: str | None, default: str) -> int | str | None:
    """The number of replicates, "auto", or None for none.

    >>> make_replicates("60", "default"), make_replicates("none", "default"), make_replicates(None, "default")
    (60, None, 'default')
    """
    words: dict[str | None, str | None] = {None: default, "auto": "auto", "none": None}
    if text in words:
        return words[text]
    if not text or not text.isdecimal():
        raise OptionError(f"replicates is {text!r}; give a number, auto or none")
    return int(text)


def run_evaluations(log: Log, policies: Mapping[str, Any], asked: Asked, *, quiet: bool) -> dict[str, Estimate]:
    """An estimate for each policy, with a progress bar."""
    import backcast as bc

    estimates: dict[str, Estimate] = {}
    with _watched(log, asked.passes(policies.values()), len(policies), quiet=quiet) as bar:
        for name, policy in policies.items():
            bar.begin(name)
            estimates[name] = bc.evaluate(log, policy, asked.evaluator, progress=bar.advance, **asked.options)
    return estimates


def run_comparison(log: Log, policies: Mapping[str, Any], asked: Asked, *, quiet: bool) -> Comparison:
    """The policies compared, with a progress bar."""
    import backcast as bc

    with _watched(log, asked.passes(policies.values()), 1, quiet=quiet) as bar:
        bar.begin(f"{len(policies)} policies")
        return bc.compare(log, policies, asked.evaluator, progress=bar.advance, **asked.options)


@contextmanager
def _watched(log: Log, passes: int, tasks: int, *, quiet: bool) -> Iterator[Bar]:
    """A progress bar, and warnings of drift as single lines, each once."""
    with progress_bar(len(log) * passes, tasks, quiet=quiet) as bar, warnings_in_one_line():
        yield bar


@contextmanager
def warnings_in_one_line() -> Iterator[None]:
    """Warnings of drift as single lines in the words of the command line, each once; others as they are."""
    from backcast.choosing import DriftWarning

    told: set[str] = set()
    as_ever: Any = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
        if not issubclass(category, DriftWarning):
            as_ever(message, category, *rest)
        elif str(message) not in told:
            told.add(str(message))
            say(f"warning: {str(message).replace('exchangeable=True', '--exchangeable')}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", DriftWarning)
        # put back at the end with the filters
        warnings.showwarning = cast(Any, show)
        yield


def facts_about(log: Log, source: str) -> dict[str, Any]:
    """What the log is, for the top of a table and the end of a report."""
    return {
        "log": source,
        "events": len(log),
        "actions": log.n_actions,
        "features": log.n_features,
        "average reward in the log": float(log.rewards.mean()),
    }
