"""Each experiment as Markdown, JSON and charts in the output folder."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from bench.reproduction import horizon, published, table1, table2, table3, worlds
from bench.reproduction.charts import error_chart, save_chart, worlds_chart
from bench.reproduction.journal import Plan
from bench.reproduction.results import Score, circumstances, markdown_table, save_json, save_text

__all__ = ["EXPERIMENTS", "reproduce"]


def reproduce(name: str, plan: Plan, command: str) -> str:
    """Run an experiment (or go on with it), write what came out, and return the Markdown."""
    text: str = EXPERIMENTS[name](plan, circumstances(command))
    save_text(plan.out / f"{name}.md", text)
    return text


def _figure(value: float | None, digits: int = 4) -> str:
    """A number as the tables show it; nothing where there is none.

    >>> _figure(0.12345), _figure(1234.5, 0), _figure(float("nan"))
    ('0.1235', '1,234', '')
    """
    return "" if value is None or not math.isfinite(value) else f"{value:,.{digits}f}"


def _made(about: dict[str, Any]) -> str:
    return f"Made with `{about['command']}` on {about['date']}, {about['machine']}, Python {about['python']}."


def _score_rows(scores: list[Score], paper: dict[str, float]) -> list[list[str]]:
    return [
        [
            one.evaluator,
            f"{_figure(one.rmse)} ± {_figure(one.reach)}",
            _figure(one.bias),
            _figure(one.stdev),
            _figure(paper.get(one.evaluator)),
        ]
        for one in scores
    ]


def _static(plan: Plan, about: dict[str, Any]) -> str:
    scores, facts = table1.run(plan)
    paper = published.TABLE_1 if plan.world == "rcv1" else {}
    accepted = published.ACCEPTED_1 if plan.world == "rcv1" else {}
    save_json(plan.out / "table1.json", {"made": about, "facts": facts, "scores": scores, "paper": paper})
    save_chart(error_chart(scores, paper, "A fixed policy (Table 1)"), plan.out / "table1.svg")
    head = ["evaluator", "rmse", "bias", "stdev", "paper: rmse", "accepted", "paper: accepted"]
    rows = [
        [*row, _figure(one.accepted, 0), accepted.get(one.evaluator)]
        for row, one in zip(_score_rows(scores, paper), scores, strict=True)
    ]
    truth = f"{facts['trials']} trials on {facts['world']}, {facts['events']:,} events each; the policy loses "
    return f"{_made(about)}\n\n{truth}{facts['truth']:.4f} on average.\n\n{markdown_table(head, rows)}\n"


def _adaptive(name: str, title: str, work: Callable[[Plan], dict[str, Any]]) -> Callable[[Plan, dict[str, Any]], str]:
    def write(plan: Plan, about: dict[str, Any]) -> str:
        results = work(plan)
        paper = published.TABLE_2 if plan.world == "rcv1" and name == "table2" else {}
        save_json(plan.out / f"{name}.json", {"made": about, **results, "paper": paper})
        save_chart(error_chart(results["scores"]["ground"], paper, title), plan.out / f"{name}.svg")
        return f"{_made(about)}\n\n{_truths(results['facts'])}\n\n{_adaptive_table(results['scores'], paper)}\n"

    return write


def _truths(facts: dict[str, Any]) -> str:
    lines = [f"{facts['trials']} trials on {facts['world']}, {facts['events']:,} events, {facts['horizon']} rounds."]
    for where, words in (("ground", "ground-truth"), ("evaluation", "evaluation")):
        t = facts["truths"][where]
        lines.append(
            f"Truth on the {words} split ({t['examples']:,} examples, {t['runs']} live runs): {t['value']:.4f} "
            f"± {t['error']:.4f} (standard error; losses met: {t['met']:.4f} ± {t['met error']:.4f})."
        )
    return "\n".join(lines)


def _adaptive_table(scores: dict[str, list[Score]], paper: dict[str, float]) -> str:
    head = ["evaluator", "rmse", "bias", "stdev", "paper: rmse", "rmse, evaluation split", "accepted", "complete"]
    rows = [
        [*row, _figure(other.rmse), _figure(one.accepted, 0), _figure(one.complete, 1)]
        for row, one, other in zip(
            _score_rows(scores["ground"], paper), scores["ground"], scores["evaluation"], strict=True
        )
    ]
    return markdown_table(head, rows)


def _real(plan: Plan, about: dict[str, Any]) -> str:
    results = table3.run(plan)
    save_json(plan.out / "table3.json", {"made": about, "cases": results, "paper": published.TABLE_3})
    return "\n\n".join([_made(about), *(_real_case(name, case) for name, case in results.items())]) + "\n"


def _real_case(name: str, case: dict[str, Any]) -> str:
    sizes, references = case["sizes"], case["references"]
    truth = "; ".join(f"{policy} {r['value']:.4f} ± {r['error']:.4f}" for policy, r in references.items())
    head = [
        "evaluator",
        "self-evaluation",
        "argmax",
        "paper: self",
        "paper: argmax",
        "argmax, as estimated",
        "accepted",
    ]
    cells = {(one[0], one[1]): one for one in (table3.Cell(*cell) for cell in case["cells"])}
    rows = []
    for evaluator in dict.fromkeys(key[0] for key in cells):
        own, best = cells[evaluator, "self-evaluation"], cells[evaluator, "argmax"]
        scaled = [
            f"{c.normalised:.3f} ± {c.normalised_sd:.3f}" if math.isfinite(c.normalised) else "" for c in (own, best)
        ]
        paper = published.TABLE_3.get(evaluator, ("", ""))
        rows.append([evaluator, *scaled, *paper, f"{best.mean:.4f} ± {best.sd:.4f}", _figure(best.accepted, 0)])
    sentence = (
        f"{sizes['train']:,} events train, ten subsets of {sizes['subset']:,}. "
        f"On all {sizes['held out']:,} held-out uniform events (± standard error): {truth}."
    )
    return f"## {name}\n\n{sentence}\n\n{markdown_table(head, rows)}"


def _worlds(plan: Plan, about: dict[str, Any]) -> str:
    results = worlds.run(plan)
    save_json(plan.out / "worlds.json", {"made": about, **results})
    parts = [_made(about)]
    for task in ("static", "adaptive"):
        tables = {name: worlds.relative(scores) for name, scores in results[task].items()}
        save_chart(worlds_chart(tables, f"The {task} task on other data"), plan.out / f"worlds-{task}.svg")
        parts.append(f"## The {task} task: rmse over that of RS\n\n{_worlds_table(tables)}")
    return "\n\n".join(parts) + "\n"


def _worlds_table(tables: dict[str, dict[str, float]]) -> str:
    ranks = worlds.mean_ranks(list(tables.values()))
    rows = [
        [evaluator, *(_figure(table[evaluator], 2) for table in tables.values()), f"{rank:.1f}"]
        for evaluator, rank in ranks.items()
    ]
    return markdown_table(["evaluator", *tables, "mean rank"], rows)


EXPERIMENTS: dict[str, Callable[[Plan, dict[str, Any]], str]] = {
    "table1": _static,
    "table2": _adaptive("table2", "A policy that learns (Table 2)", table2.run),
    "table3": _real,
    "horizon": _adaptive("horizon", "A policy that learns, 500 rounds", horizon.run),
    "worlds": _worlds,
}
