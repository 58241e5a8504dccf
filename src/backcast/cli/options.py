"""The schema of settings: flag, key in a run file, type, default and help of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from backcast.cli.objects import EVALUATORS, INTERVALS, POLICIES, Registry


@dataclass(frozen=True)
class Kind:
    """Type of a setting: of its flag, the description and the check of a run file's value, the metavar in the help."""

    flag_type: Any
    description: str
    accepts: Callable[[Any], bool]
    metavar: str | None = None


def _is(*types: type, or_list: bool = False) -> Callable[[Any], bool]:
    """Return the test for a value of exactly these types (true is no number), or for a list of such values."""

    def accepts(value: Any) -> bool:
        values = value if or_list and isinstance(value, list) else [value]
        return all(type(entry) in types for entry in values)

    return accepts


def _is_range(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and NUMBERS.accepts(value)


def _is_horizon(value: Any) -> bool:
    from backcast._horizon import SPAN

    return type(value) is int or (isinstance(value, str) and (value.isdecimal() or SPAN.fullmatch(value) is not None))


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(entry, str | dict) for entry in value.values())


TEXT = Kind(str, "text", _is(str))
COUNT = Kind(int, "a whole number", _is(int), "N")
NUMBER = Kind(float, "a number", _is(int, float), "NUMBER")
TRUTH = Kind(bool, "true or false", _is(bool))
TEXTS = Kind(list[str], "text, or a list of texts", _is(str, or_list=True))
NUMBERS = Kind(list[float], "a number, or a list of numbers", _is(int, float, or_list=True), "NUMBER")
RANGE = Kind(tuple[float, float], "two numbers", _is_range, "LOW HIGH")
TEXT_OR_NUMBER = Kind(str, "text or a number", _is(str, int, float))
TEXT_OR_COUNT = Kind(str, "text or a whole number", _is(str, int))
ROUNDS = Kind(str, "a whole number, or a span of time such as '1d'", _is_horizon)
FILL = Kind(
    list[str],
    "mean, zero, a number, or a table of columns and one of these",
    lambda value: (
        TEXT_OR_NUMBER.accepts(value)
        or (isinstance(value, dict) and all(TEXT_OR_NUMBER.accepts(entry) for entry in value.values()))
    ),
    "[COLUMN=]VALUE",
)
CATEGORIES = Kind(
    bool,
    "true, false, or a table of columns and lists of their values",
    lambda value: isinstance(value, bool) or (isinstance(value, dict) and all(map(TEXTS.accepts, value.values()))),
)
COLUMN_TABLE = Kind(
    list[str],
    "a table of names and columns, or a list of columns",
    lambda value: (
        TEXTS.accepts(value) or (isinstance(value, dict) and all(isinstance(column, str) for column in value.values()))
    ),
    "[NAME=]COLUMN",
)
TABLE = Kind(list[str], "a table of names and policies", _is_table)
GRID = Kind(
    list[str],
    "a table of options and lists of their values",
    lambda value: isinstance(value, dict),
    "OPTION=V1,V2,...",
)
COLUMN, COLUMNS = replace(TEXT, metavar="COLUMN"), replace(TEXTS, metavar="COLUMN")
FILE = replace(TEXT, metavar="FILE")


@dataclass(frozen=True)
class Option:
    """One setting.

    ``key`` is its name in a run file; the flag is the same with hyphens unless ``flags`` differs. ``default`` is the
    default in words, ``minimum`` the smallest number allowed, ``names`` the registry for shell completion,
    ``metavar`` the name of its value in the help if it is not that of its kind.
    """

    key: str
    kind: Kind
    help: str
    default: str = ""
    flags: str = ""
    minimum: int | None = None
    metavar: str | None = None
    names: Registry | None = None
    panel: str | None = None

    @property
    def flag(self) -> str:
        """The flag on the command line."""
        return self.flags or f"--{self.key.replace('_', '-')}"


def typer_annotation(option: Option) -> Any:
    """Return the annotation that typer needs; a flag that is not given is None, so that the run file decides."""
    names = [] if option.names is None else option.names.names

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    shown_default: Any = option.default or False
    return Annotated[
        option.kind.flag_type | None,
        typer.Option(
            option.flag,
            help=option.help,
            min=option.minimum,
            metavar=option.metavar or option.kind.metavar,
            rich_help_panel=option.panel,
            show_default=shown_default,
            autocompletion=None if option.names is None else complete,
        ),
    ]


def _panel(name: str, *options: Option) -> tuple[Option, ...]:
    """Options under one heading of the help."""
    return tuple(replace(option, panel=name) for option in options)


LOG = _panel(
    "The log",
    Option("context", COLUMNS, "Context columns, by name or quoted pattern. May be given several times."),
    Option("action", COLUMN, "Column of the action that was taken."),
    Option("reward", COLUMN, "Column of the reward."),
    Option(
        "propensity",
        TEXT_OR_NUMBER,
        "Column of the probability of the action that was taken, or the probability itself if it is constant.",
        metavar="COLUMN|P",
    ),
    Option("estimate_propensities", TRUTH, "Estimate the probabilities if they were not recorded."),
    Option("available", COLUMNS, "Columns of the eligible actions: one per action, or one column of lists."),
    Option(
        "logging_probabilities",
        COLUMNS,
        "Columns of the logger's probabilities of all actions: one per action, or one column of lists.",
    ),
    Option(
        "outcomes",
        COLUMN_TABLE,
        "Column of a further outcome to read off the same histories, such as latency=ms; never a context feature. May "
        "be given several times.",
        flags="--outcome",
    ),
    Option(
        "segments",
        COLUMNS,
        "Column to break the results of compare down by. May be given several times.",
        flags="--segment",
    ),
    Option("times", COLUMN, "Column of the time of each event; the log is evaluated in this order."),
    Option(
        "n_actions",
        COUNT,
        "Number of actions, if the log may not contain all of them; they are then 0, 1, 2, ...",
        minimum=1,
        metavar="K",
    ),
    Option(
        "action_labels",
        TEXTS,
        "All actions in order, if columns refer to actions by position, or some actions never occur.",
        metavar="LABEL",
    ),
    Option("reward_range", RANGE, "Known lowest and highest reward, such as 0 1."),
    Option(
        "hash_size",
        COUNT,
        "Number of features that a text column of more values than that is hashed into.",
        "32; 128 for Vowpal Wabbit",
        minimum=1,
    ),
    Option(
        "interactions",
        TEXTS,
        "Features of a log of Vowpal Wabbit to cross: auto (shared ones with those of the actions), none, or pairs of "
        "namespaces such as UA, as for its -q. May be given several times.",
        "auto",
        metavar="PAIR",
    ),
    Option(
        "one_hot",
        CATEGORIES,
        "Whether text columns of few values have one feature per value; if not, they are hashed too.",
        "--one-hot",
        flags="--one-hot/--no-one-hot",
    ),
    Option(
        "fill",
        FILL,
        "What missing values of context columns are filled with: mean, zero, a number or a text; each filled column "
        "has one more feature that marks them. For one column: --fill age=mean. May be given several times.",
    ),
    Option(
        "where",
        TEXT,
        "Rows to use, as a condition of SQL: \"country = 'DE' and hour between 8 and 20\".",
        metavar="CONDITION",
    ),
    Option("delimiter", TEXT, "Delimiter of CSV; found from the file if not given.", metavar="CHARACTER"),
    Option("encoding", TEXT, "Encoding of CSV, such as latin-1; found from the file if not given.", metavar="NAME"),
    Option(
        "format",
        TEXT,
        "File format, if the name does not show it: parquet, csv, tsv, ndjson; vw, dsjson, cb or adf for a log of "
        "Vowpal Wabbit, which has no columns to name.",
        metavar="KIND",
    ),
    Option(
        "exchangeable",
        TRUTH,
        "Whether the order of the log carries no information. If not given, the log is tested for drift, with a "
        "warning if there is any.",
        flags="--exchangeable/--not-exchangeable",
    ),
    Option(
        "stream",
        TRUTH,
        "Whether the log is read in parts and never held in memory whole. If not given, this is done for logs that "
        "would not fit in the free memory together with their evaluation.",
        flags="--stream/--no-stream",
    ),
)
POLICY_HELP = (
    "Policy, such as uniform or linucb:alpha=0.3, or module:factory for your own: a function or class in a module of "
    "the current folder, which is imported and called. "
)
RUN = _panel(
    "The evaluation",
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
        "auto selects one. For learning policies: clock, dr-ns:q=0.01, wc, rs, replay; for fixed ones: dr, ips, "
        "snips, clipped-ips, sndr, switch-dr, shrinkage-dr, pessimistic-dr, sub-gaussian, baseline-ips, cab, mrdr, "
        "stable-var, cadr, reward-quantile:q=0.5, cvar:share=0.1; for both: dm.",
        "auto",
        metavar="EVALUATOR",
        names=EVALUATORS,
    ),
    Option(
        "interval",
        TEXT,
        "In place of the evaluator's default. For learning policies: infinitesimal-jackknife, group-jackknife, "
        "segments, theorem-2, anytime; for fixed ones: normal, student, bootstrap, bca, hoeffding, "
        "empirical-bernstein, clopper-pearson, cressie-read, betting.",
        metavar="INTERVAL",
        names=INTERVALS,
    ),
    Option(
        "horizon",
        ROUNDS,
        "Rounds that the policy runs for, or a span of time if the log has times (12h, 1d, 2w: as many rounds as it "
        "has events in that time); one pass over the log if not given.",
        metavar="T",
    ),
    Option("level", NUMBER, "Level of the intervals.", "0.95", metavar="SHARE"),
    Option("seed", COUNT, "Seed of all random numbers; the same seed gives the same result.", "0", minimum=0),
    Option(
        "replicates",
        TEXT_OR_COUNT,
        "Passes over the log, for value and standard error of a learning policy; auto adds passes until the "
        "Monte-Carlo error is small. The evaluator's default if not given.",
        metavar="N|auto|none",
    ),
    Option(
        "time_budget",
        NUMBER,
        "Seconds of work on two cores, as a fixed cost model counts them, for which auto or clock choose the number of "
        "passes, their events and how often they are read. If not given, 30 for auto, more for logs of more than "
        "100,000 events; no limit for an evaluator that is given.",
        metavar="SECONDS",
    ),
    Option(
        "jobs",
        COUNT,
        "Replicates run in parallel; the result does not depend on it.",
        "all cores; 1 where work is short",
        minimum=1,
    ),
)
PAIRED_RUN = tuple(option for option in RUN if option.key != "interval")
COMPARISON = _panel(
    "The comparison",
    Option(
        "baseline",
        TEXT,
        "What lifts and the verdict are relative to: logged, which is what the log earned; the name of a policy; or "
        "none.",
        "logged",
        metavar="NAME",
    ),
    Option(
        "require",
        TEXTS,
        "What the comparison must show, for the exit code: better or not-worse, the policy with the highest value than "
        'the baseline; or a comparison such as "linucb > logged + 0.01" or "linucb > logged - 2 %". May be given '
        "several times.",
        metavar="REQUIREMENT",
    ),
    Option(
        "guardrails",
        TEXTS,
        'Bound on a further outcome that a better policy must be shown to keep, such as "latency < logged + 5", '
        '"clicks >= logged - 2 %" or "complaints < 0.01"; also for the exit code. May be given several times.',
        flags="--guardrail",
        metavar="GUARDRAIL",
    ),
)
EXECUTION = _panel(
    "Execution",
    Option(
        "engine",
        TEXT,
        "local; dask or ray for a cluster (extras dask and ray of the package). The result does not depend on it.",
        "local",
        metavar="ENGINE",
    ),
    Option(
        "scheduler",
        TEXT,
        "Address of the cluster, such as tcp://HOST:8786 for Dask; a new Ray on this machine if not given.",
        metavar="ADDRESS",
    ),
    Option(
        "checkpoint",
        TEXT,
        "Folder for finished replicates; the same command, started again, continues from them.",
        metavar="DIR",
    ),
    Option("time_limit", NUMBER, "Time limit of one replicate in seconds; none if not given.", metavar="SECONDS"),
)
OUTPUT = _panel(
    "Files to write",
    Option("report", FILE, "Write an HTML report to this file."),
    Option("save_json", FILE, "Save the result as JSON in this file; 'backcast report' makes a report from it."),
)
SEARCH = (
    *(option for option in RUN if option.key not in ("interval", "replicates", "time_budget")),
    *_panel(
        "The search",
        Option(
            "grid",
            GRID,
            "Values to try of an option of the policy, such as alpha=0.1,0.3,1; policy__alpha for an option of the "
            "policy inside of warm-start. May be given several times; all combinations are tried.",
        ),
        Option("folds", COUNT, "Folds of the events in the value of the best setting.", "5", minimum=2),
    ),
)
PLANNING = _panel(
    "The plan",
    Option("difference", NUMBERS, "Difference in reward per round to detect. May be given several times."),
    Option("power", NUMBER, "Probability of detecting the difference.", "0.8"),
    Option("reward_sd", NUMBER, "Without a pilot log: standard deviation of the reward around its prediction."),
    Option("weight", NUMBER, "Without a pilot log: typical weight pi/p of the policy's actions; K for a uniform log."),
    Option("agreement", NUMBER, "Without a pilot log: share of decisions in which the two policies agree.", "0"),
    Option(
        "run_sd", NUMBER, "Without a pilot log: standard deviation of a policy's average reward over live runs.", "0"
    ),
)
KEYS = {option.key: option for option in (*LOG, *RUN, *COMPARISON, *SEARCH, *EXECUTION, *OUTPUT, *PLANNING)}
JSON = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
QUIET = Annotated[bool, typer.Option("--quiet", help="Print no progress, verdict or notes.")]
