"""Each experiment as Markdown, JSON and charts, beside the paper's figures."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.common.charts import interval_chart, point_chart, save_chart
from bench.common.machine import describe_provenance, provenance
from bench.common.markdown import format_number, markdown_table
from bench.common.output import write_json, write_page
from bench.reproduction.classification import run_long_horizon, run_table1, run_table2, run_worlds
from bench.reproduction.protocol import PAPER, Options, Score
from bench.reproduction.real_data import Cell, run_table3

# figures of Dudik et al. 2012
TABLE_1 = dict(zip(PAPER, (0.0151, 0.0191, 0.0055, 0.0093, 0.0057, 0.0055, 0.0058), strict=True))
ACCEPTED_1 = {"RS": 264, "DRns(q=0)": 523, "DRns(q=0.01)": 3375, "DRns(q=0.05)": 4279, "DRns(q=0.1)": 4375}
TABLE_2 = dict(zip(PAPER, (0.0329, 0.0179, 0.0156, 0.0129, 0.0089, 0.0123, 0.0946), strict=True))
# normalised mean and standard deviation: self-evaluation, argmax
TABLE_3 = {
    "RS": ("0.986 ± 0.060", "0.990 ± 0.048"),
    "IPS": ("0.995 ± 0.041", "1.000 ± 0.027"),
    "DM": ("1.213 ± 0.010", "1.211 ± 0.002"),
    "DR": ("0.967 ± 0.042", "0.991 ± 0.026"),
    "DRns(q=0.1)": ("0.974 ± 0.039", "0.993 ± 0.024"),
}


def write_experiment(name: str, options: Options, command: str) -> str:
    """Run an experiment, or continue it; write the results, and return the page as Markdown."""
    blocks, data = EXPERIMENTS[name](options)
    origin = provenance(command)
    write_json(options.out / f"{name}.json", {**origin, **data})
    return write_page(options.out / f"{name}.md", [describe_provenance(origin), *blocks])


def _write_table1(options: Options) -> tuple[list[str], dict[str, Any]]:
    results = run_table1(options)
    scores, facts = results["scores"], results["facts"]
    published, accepted = (TABLE_1, ACCEPTED_1) if options.world == "rcv1" else ({}, {})
    head = ["evaluator", "rmse", "bias", "stdev", "paper: rmse", "accepted", "paper: accepted"]
    rows = [
        [*_score_cells(score, published), format_number(score.accepted, 0), accepted.get(score.evaluator)]
        for score in scores
    ]
    sentence = (
        f"{facts['trials']} trials on {facts['world']}, {facts['events']:,} events each; the policy loses "
        f"{facts['truth']:.4f} on average."
    )
    chart = _save_error_chart(options, "table1", scores, published, "A fixed policy (Table 1)")
    return [sentence, markdown_table(head, rows), chart], {**results, "paper": published}


def _write_adaptive(
    name: str, title: str, run: Callable[[Options], dict[str, Any]], published: dict[str, float]
) -> Callable[[Options], tuple[list[str], dict[str, Any]]]:
    def write(options: Options) -> tuple[list[str], dict[str, Any]]:
        results = run(options)
        paper = published if options.world == "rcv1" else {}
        head = ["evaluator", "rmse", "bias", "stdev", "paper: rmse", "rmse, evaluation split", "accepted", "complete"]
        scores = results["scores"]
        rows = [
            [
                *_score_cells(score, paper),
                *(format_number(other.rmse), format_number(score.accepted, 0), format_number(score.complete, 1)),
            ]
            for score, other in zip(scores["ground"], scores["evaluation"], strict=True)
        ]
        chart = _save_error_chart(options, name, scores["ground"], paper, title)
        return [_describe_truths(results["facts"]), markdown_table(head, rows), chart], {**results, "paper": paper}

    return write


def _describe_truths(facts: dict[str, Any]) -> str:
    lines = [f"{facts['trials']} trials on {facts['world']}, {facts['events']:,} events, {facts['horizon']} rounds."]
    for split, words in (("ground", "ground-truth"), ("evaluation", "evaluation")):
        t = facts["truths"][split]
        lines.append(
            f"Truth on the {words} split ({t['examples']:,} examples, {t['runs']} live runs): {t['value']:.4f} "
            f"± {t['error']:.4f} (standard error; losses met: {t['met']:.4f} ± {t['met error']:.4f})."
        )
    return "\n".join(lines)


def _score_cells(score: Score, published: dict[str, float]) -> list[str]:
    numbers = (score.bias, score.stdev, published.get(score.evaluator))
    rmse = f"{format_number(score.rmse)} ± {format_number(score.half_width)}"
    return [score.evaluator, rmse, *map(format_number, numbers)]


def _write_table3(options: Options) -> tuple[list[str], dict[str, Any]]:
    results = run_table3(options)
    blocks = [block for name, case in results.items() for block in (f"## {name}", *_describe_case(case))]
    return blocks, {"cases": results, "paper": TABLE_3}


def _describe_case(case: dict[str, Any]) -> tuple[str, str]:
    sizes, references = case["sizes"], case["references"]
    truth = "; ".join(f"{policy} {r['value']:.4f} ± {r['error']:.4f}" for policy, r in references.items())
    sentence = (
        f"{sizes['train']:,} events train, ten subsets of {sizes['subset']:,}. "
        f"On all {sizes['held out']:,} held-out uniform events (± standard error): {truth}."
    )
    cells: dict[tuple[str, str], Cell] = {(cell.evaluator, cell.policy): cell for cell in case["cells"]}
    rows = []
    for evaluator in dict.fromkeys(evaluator for evaluator, _ in cells):
        both = cells[evaluator, "self-evaluation"], cells[evaluator, "argmax"]
        normalised = [
            f"{c.normalised:.3f} ± {c.normalised_sd:.3f}" if math.isfinite(c.normalised) else "" for c in both
        ]
        estimated = f"{both[1].mean:.4f} ± {both[1].sd:.4f}"
        published = TABLE_3.get(evaluator, ("", ""))
        rows.append([evaluator, *normalised, *published, estimated, format_number(both[1].accepted, 0)])
    head = ["evaluator", "self-evaluation", "argmax", "paper: self", "paper: argmax", "argmax, as estimated"]
    return sentence, markdown_table([*head, "accepted"], rows)


def _write_worlds(options: Options) -> tuple[list[str], dict[str, Any]]:
    results = run_worlds(options)
    blocks = []
    for task in ("static", "adaptive"):
        ratios = {name: ratios_to_rs(scores) for name, scores in results[task].items()}
        ranks = mean_ranks(list(ratios.values()))
        rows = [
            [evaluator, *(format_number(table[evaluator], 2) for table in ratios.values()), f"{rank:.1f}"]
            for evaluator, rank in ranks.items()
        ]
        points = [
            {"set": name, "evaluator": evaluator, "ratio": ratio}
            for name, table in ratios.items()
            for evaluator, ratio in table.items()
            if ratio > 0
        ]
        title = f"The {task} task on other data"
        chart = point_chart(points, "ratio", "evaluator", "set", "rmse over that of RS", title)
        blocks += [
            f"## The {task} task: rmse over that of RS",
            markdown_table(["evaluator", *ratios, "mean rank"], rows),
            _save_chart(options, f"worlds-{task}", chart, title),
        ]
    return blocks, results


def ratios_to_rs(scores: list[Score]) -> dict[str, float]:
    """Return the rmse of each evaluator divided by that of RS."""
    base = next(score.rmse for score in scores if score.evaluator == "RS")
    return {score.evaluator: score.rmse / base for score in scores}


def mean_ranks(tables: list[dict[str, float]]) -> dict[str, float]:
    """Return the average rank of each evaluator, 1 for the least error; one without an estimate is last.

    >>> mean_ranks([{"RS": 1.0, "ours": 0.25}, {"RS": 1.0, "ours": 2.0}])
    {'RS': 1.5, 'ours': 1.5}
    """
    errors = np.array([list(table.values()) for table in tables])
    ranks = np.argsort(np.argsort(np.nan_to_num(errors, nan=np.inf), axis=1), axis=1) + 1
    return dict(zip(tables[0], ranks.mean(axis=0).tolist(), strict=True))


def _save_error_chart(options: Options, name: str, scores: list[Score], published: dict[str, float], title: str) -> str:
    rows = [
        {"evaluator": s.evaluator, "rmse": s.rmse, "low": s.rmse - s.half_width, "high": s.rmse + s.half_width}
        for s in scores
    ]
    return _save_chart(options, name, interval_chart(rows, published, title), title)


def _save_chart(options: Options, name: str, chart: Any, title: str) -> str:
    """Save a chart, and return the link to it from the folder of the results."""
    [path] = save_chart(chart, (options.charts or options.out) / name)
    return f"![{title}]({Path(os.path.relpath(path, options.out)).as_posix()})"


EXPERIMENTS: dict[str, Callable[[Options], tuple[list[str], dict[str, Any]]]] = {
    "table1": _write_table1,
    "table2": _write_adaptive("table2", "A policy that learns (Table 2)", run_table2, TABLE_2),
    "table3": _write_table3,
    "horizon": _write_adaptive("horizon", "A policy that learns, 500 rounds", run_long_horizon, {}),
    "worlds": _write_worlds,
}
