"""The options of the commands: their types and what their help says."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

__all__ = [
    "Action",
    "AsJson",
    "Context",
    "EvaluatorWords",
    "Format",
    "Horizon",
    "IntervalWords",
    "Level",
    "LogPath",
    "PolicyWords",
    "Propensity",
    "Quiet",
    "ReportPath",
    "Reward",
    "RewardRange",
    "Seed",
]

LogPath: TypeAlias = Annotated[
    str, typer.Argument(help="Parquet, CSV, NDJSON or Arrow: a file, a quoted pattern, or a folder.")
]
Context: TypeAlias = Annotated[
    list[str] | None, typer.Option(help="Context columns by name or quoted pattern. May be given several times.")
]
Action: TypeAlias = Annotated[str, typer.Option(help="Column of the action that was taken.")]
Reward: TypeAlias = Annotated[str, typer.Option(help="Column of the reward that came of it.")]
Propensity: TypeAlias = Annotated[str, typer.Option(help="Column of the probability with which it was taken.")]
PolicyWords: TypeAlias = Annotated[
    list[str],
    typer.Option(
        help="Policy, such as uniform or linucb:alpha=0.3, or module:factory for your own: a function or class in a "
        "module of the current folder, which is imported and called. May be given several times."
    ),
]
EvaluatorWords: TypeAlias = Annotated[str, typer.Option(help="Such as dr-ns:q=0.01, wc, dr, ips; auto chooses.")]
IntervalWords: TypeAlias = Annotated[
    str | None, typer.Option(help="In place of the evaluator's own: anytime, segments, theorem-2.")
]
Horizon: TypeAlias = Annotated[
    int | None, typer.Option(help="Rounds the policy would run for; one pass over the log if not given.")
]
Level: TypeAlias = Annotated[float, typer.Option(help="Level of the intervals.")]
Seed: TypeAlias = Annotated[int, typer.Option(min=0, help="Same seed, same answer.")]
RewardRange: TypeAlias = Annotated[
    tuple[float, float] | None, typer.Option(help="Known lowest and highest reward, such as 0 1.")
]
Format: TypeAlias = Annotated[str | None, typer.Option(help="Kind of file, where its name does not say.")]
ReportPath: TypeAlias = Annotated[str | None, typer.Option(help="Write an HTML report to this file.")]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", help="No progress, verdict or notes.")]
