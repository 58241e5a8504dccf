"""The settings of a run, each said once: what a flag and a run file call it, what it takes, and what it means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from backcast.cli.objects import EVALUATORS, INTERVALS, POLICIES, Registry


@dataclass(frozen=True)
class Kind:
    """What a setting takes: the type a flag is read as, the words for a run file, and whether a value of one fits."""

    flag: Any
    words: str
    fits: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are(value: Any, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(fits, value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


TEXT = Kind(str, "text", _is_text)


COUNT = Kind(int, "a whole number", _is_count)


NUMBER = Kind(float, "a number", _is_number)


TRUTH = Kind(bool, "true or false", lambda value: isinstance(value, bool))


TEXTS = Kind(list[str], "text, or a list of texts", lambda value: _is_text(value) or _are(value, _is_text))


NUMBERS = Kind(
    list[float], "a number, or a list of numbers", lambda value: _is_number(value) or _are(value, _is_number)
)


RANGE = Kind(tuple[float, float], "two numbers", lambda value: _are(value, _is_number) and len(value) == 2)


TEXT_OR_NUMBER = Kind(str, "text or a number", lambda value: _is_text(value) or _is_number(value))


TEXT_OR_COUNT = Kind(str, "text or a whole number", lambda value: _is_text(value) or _is_count(value))


TABLE = Kind(
    list[str],
    "a table of names and policies",
    lambda value: isinstance(value, dict) and all(isinstance(one, str | dict) for one in value.values()),
)


@dataclass(frozen=True)
class Option:
    """One setting.

    ``key`` is its name in a run file; the flag is the same with hyphens unless ``flags`` says otherwise. ``least`` is
    the smallest number allowed, ``default`` what holds where nothing is said, in words; ``names`` are completed by
    the shell.
    """

    key: str
    kind: Kind
    help: str
    default: str = ""
    flags: str = ""
    least: int | None = None
    metavar: str | None = None
    names: Registry | None = None
    panel: str | None = None

    @property
    def flag(self) -> str:
        """How the command line spells it."""
        return self.flags or f"--{self.key.replace('_', '-')}"


def annotated(option: Option) -> Any:
    """The option as typer wants it; None where it is not given, so that a run file can speak."""
    shown: Any = option.default or False
    completed = None if option.names is None else _completion(option.names)
    return Annotated[
        option.kind.flag | None,
        typer.Option(
            option.flag,
            help=option.help,
            min=option.least,
            metavar=option.metavar,
            rich_help_panel=option.panel,
            show_default=shown,
            autocompletion=completed,
        ),
    ]


def _completion(registry: Registry) -> Callable[[str], list[str]]:
    def names(incomplete: str) -> list[str]:
        return [name for name in registry.names if name.startswith(incomplete)]

    return names


def _panel(name: str, *options: Option) -> tuple[Option, ...]:
    """Options that help shows together."""
    return tuple(replace(option, panel=name) for option in options)


LOG = _panel(
    "The log",
    Option(
        "context", TEXTS, "Context columns by name or quoted pattern. May be given several times.", metavar="COLUMN"
    ),
    Option("action", TEXT, "Column of the action that was taken.", metavar="COLUMN"),
    Option("reward", TEXT, "Column of the reward that came of it.", metavar="COLUMN"),
    Option(
        "propensity",
        TEXT_OR_NUMBER,
        "Column of the probability with which it was taken, or the probability itself where it was always the same.",
        metavar="COLUMN|P",
    ),
    Option(
        "estimate_propensities",
        TRUTH,
        "Estimate the probabilities, where nobody wrote them down.",
    ),
    Option(
        "available",
        TEXTS,
        "Columns of the actions that were eligible: one an action, or one column of lists.",
        metavar="COLUMN",
    ),
    Option(
        "logging_probabilities",
        TEXTS,
        "Columns of the logger's probabilities of all actions, likewise.",
        metavar="COLUMN",
    ),
    Option("times", TEXT, "Column of when it happened, for looking at drift.", metavar="COLUMN"),
    Option(
        "n_actions",
        COUNT,
        "Number of actions, where the log need not show all; they are then 0, 1, 2, ...",
        least=1,
        metavar="K",
    ),
    Option(
        "action_labels",
        TEXTS,
        "All actions in order, where columns speak of all of them, or a few are never seen.",
        metavar="LABEL",
    ),
    Option("reward_range", RANGE, "Known lowest and highest reward, such as 0 1.", metavar="LOW HIGH"),
    Option(
        "hash_size",
        COUNT,
        "Features that a column of text is hashed into.",
        "32; 128 for Vowpal Wabbit",
        least=1,
        metavar="N",
    ),
    Option(
        "format",
        TEXT,
        "Kind of file, where its name does not say: parquet, csv, tsv, ndjson; vw, dsjson, cb or adf for a log of "
        "Vowpal Wabbit, which names no columns.",
        metavar="KIND",
    ),
    Option(
        "exchangeable",
        TRUTH,
        "Whether the order of the log means nothing. If not given, drift is looked for, and warned of.",
        flags="--exchangeable/--not-exchangeable",
    ),
)


STREAM = _panel(
    "The log",
    Option(
        "stream",
        TRUTH,
        "Whether the log is read in parts, never all of it in memory. If not given, it is when it would take more than "
        "half of the memory that is free.",
        flags="--stream/--no-stream",
    ),
)


POLICY_HELP = (
    "Policy, such as uniform or linucb:alpha=0.3, or module:factory for your own: a function or class in a module of "
    "the current folder, which is imported and called. "
)


RUN = _panel(
    "The question",
    Option(
        "policies",
        TABLE,
        f"{POLICY_HELP}May be given several times, as name=policy to name the results.",
        flags="--policy",
        metavar="[NAME=]POLICY",
        names=POLICIES,
    ),
    Option(
        "evaluator",
        TEXT,
        "auto chooses. For policies that learn: clock, dr-ns:q=0.01, wc, rs, replay; for fixed ones: dr, ips, "
        "snips, clipped-ips, sndr, switch-dr, shrinkage-dr, pessimistic-dr, sub-gaussian, baseline-ips, cab, mrdr, "
        "reward-quantile:q=0.5, cvar:share=0.1; for both: dm.",
        "auto",
        metavar="EVALUATOR",
        names=EVALUATORS,
    ),
    Option(
        "interval",
        TEXT,
        "In place of the evaluator's own. For policies that learn: group-jackknife, segments, theorem-2, anytime; "
        "for fixed ones: normal, student, bootstrap, bca, hoeffding, empirical-bernstein, clopper-pearson, "
        "cressie-read, betting.",
        metavar="INTERVAL",
        names=INTERVALS,
    ),
    Option("horizon", COUNT, "Rounds the policy would run for; one pass over the log if not given.", metavar="T"),
    Option("level", NUMBER, "Level of the intervals.", "0.95", metavar="SHARE"),
    Option("seed", COUNT, "Same seed, same answer.", "0", least=0, metavar="N"),
    Option(
        "replicates",
        TEXT_OR_COUNT,
        "Runs on subsets of the log, for the standard error of a policy that learns; auto goes on until chance "
        "in the runs hardly counts. The evaluator's own choice if not given.",
        metavar="N|auto|none",
    ),
    Option("jobs", COUNT, "Replicates run at once; the answer does not depend on it.", "1", least=1, metavar="N"),
)


WORK = _panel(
    "Where the work is done",
    Option(
        "engine",
        TEXT,
        "local; dask or ray for a cluster (pip install 'backcast[dask]', 'backcast[ray]'). The answer does not depend "
        "on it.",
        "local",
        metavar="ENGINE",
    ),
    Option(
        "scheduler",
        TEXT,
        "Address of the cluster, such as tcp://HOST:8786 for Dask; a Ray of its own on this machine if not given.",
        metavar="ADDRESS",
    ),
    Option(
        "checkpoint",
        TEXT,
        "Folder in which finished replicates are kept: the same command started again goes on from there.",
        metavar="DIR",
    ),
    Option("time_limit", NUMBER, "Seconds that one replicate may take; any time if not given.", metavar="SECONDS"),
)


OUTPUT = _panel(
    "Files to write",
    Option("report", TEXT, "Write an HTML report to this file.", metavar="FILE"),
    Option("out", TEXT, "Save the result as JSON in this file; backcast report makes a report of it.", metavar="FILE"),
)


PLANNING = _panel(
    "The plan",
    Option(
        "difference",
        NUMBERS,
        "Difference in reward a round that must be told. May be given several times.",
        metavar="NUMBER",
    ),
    Option("power", NUMBER, "Chance of telling it, where it is there.", "0.8", metavar="NUMBER"),
    Option(
        "reward_sd",
        NUMBER,
        "Without a pilot log: standard deviation of the reward around its prediction.",
        metavar="NUMBER",
    ),
    Option(
        "weight",
        NUMBER,
        "Likewise: typical weight pi/p of an action the policy takes; K for a uniform log.",
        metavar="NUMBER",
    ),
    Option("agreement", NUMBER, "Likewise: share of decisions in which the two policies agree.", "0", metavar="NUMBER"),
    Option("run_sd", NUMBER, "Likewise: spread of a policy's average reward over live runs.", "0", metavar="NUMBER"),
)


KEYS = {option.key: option for option in (*LOG, *STREAM, *RUN, *WORK, *OUTPUT, *PLANNING)}


JSON = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


QUIET = Annotated[bool, typer.Option("--quiet", help="No progress, verdict or notes.")]
