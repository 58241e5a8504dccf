"""The options of the commands: their types and what their help says."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

__all__ = [
    "Action",
    "AsJson",
    "Context",
    "EvaluatorWords",
    "Exchangeable",
    "Format",
    "Horizon",
    "IntervalWords",
    "Jobs",
    "Level",
    "LogPath",
    "OnePolicy",
    "OrderMeansNothing",
    "PolicyWords",
    "Propensity",
    "Quiet",
    "Replicates",
    "ReportPath",
    "Reward",
    "RewardRange",
    "Seed",
]

LogPath: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="Parquet, CSV, NDJSON or Arrow: a file, a quoted pattern, or a folder; or logs of Vowpal Wabbit, .vw or "
        ".dsjson, which name no columns."
    ),
]
Context: TypeAlias = Annotated[
    list[str] | None, typer.Option(help="Context columns by name or quoted pattern. May be given several times.")
]
Action: TypeAlias = Annotated[str | None, typer.Option(help="Column of the action that was taken.")]
Reward: TypeAlias = Annotated[str | None, typer.Option(help="Column of the reward that came of it.")]
Propensity: TypeAlias = Annotated[str | None, typer.Option(help="Column of the probability with which it was taken.")]
POLICY_HELP = (
    "Policy, such as uniform or linucb:alpha=0.3, or module:factory for your own: a function or class in a module of "
    "the current folder, which is imported and called."
)
PolicyWords: TypeAlias = Annotated[
    list[str], typer.Option(help=f"{POLICY_HELP} May be given several times, as name=policy to name the results.")
]
OnePolicy: TypeAlias = Annotated[
    str | None, typer.Option(help=f"{POLICY_HELP} How the log suits it is then said as well.")
]
EvaluatorWords: TypeAlias = Annotated[
    str,
    typer.Option(
        help="auto chooses. For policies that learn: clock, dr-ns:q=0.01, wc, rs, replay; for fixed ones: dr, ips, "
        "snips, clipped-ips, sndr, switch-dr, shrinkage-dr, pessimistic-dr, sub-gaussian, baseline-ips, cab, mrdr, "
        "reward-quantile:q=0.5, cvar:share=0.1; for both: dm."
    ),
]
IntervalWords: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="In place of the evaluator's own. For policies that learn: group-jackknife, segments, theorem-2, anytime; "
        "for fixed ones: normal, student, bootstrap, bca, hoeffding, empirical-bernstein, clopper-pearson, "
        "cressie-read, betting."
    ),
]
Replicates: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="N|auto|none",
        help="Runs on subsets of the log, for the standard error of a policy that learns; auto goes on until chance "
        "in the runs hardly counts. The evaluator's own choice if not given.",
    ),
]
Jobs: TypeAlias = Annotated[int, typer.Option(min=1, help="Replicates run at once; the answer does not depend on it.")]
Exchangeable: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--exchangeable/--not-exchangeable",
        help="Whether the order of the log means nothing. If not given, drift is looked for, and warned of.",
    ),
]
OrderMeansNothing: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--exchangeable/--not-exchangeable",
        help="Whether the order of the log should mean nothing; if it may matter, as where the logger learned, drift "
        "is no fault.",
    ),
]
Horizon: TypeAlias = Annotated[
    int | None, typer.Option(help="Rounds the policy would run for; one pass over the log if not given.")
]
Level: TypeAlias = Annotated[float, typer.Option(help="Level of the intervals.")]
Seed: TypeAlias = Annotated[int, typer.Option(min=0, help="Same seed, same answer.")]
RewardRange: TypeAlias = Annotated[
    tuple[float, float] | None, typer.Option(help="Known lowest and highest reward, such as 0 1.")
]
Format: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Kind of file, where its name does not say; dsjson, cb or adf for Vowpal Wabbit's."),
]
ReportPath: TypeAlias = Annotated[str | None, typer.Option(help="Write an HTML report to this file.")]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", help="No progress, verdict or notes.")]
