"""Sections of the report about trust: what could be wrong, bias, one run, diagnostics, and the health of the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from backcast._format import MISSING, describe_assumption, format_number, format_percent, join_names
from backcast.errors import printable
from backcast.grading import GradedDiagnostic, bias_bound, grade_diagnostics
from backcast.replay_summary import ReplaySummary
from backcast.report._decision_sections import ReportContent
from backcast.report._page import Block, Cell, Chart, Heading, Items, Paragraph, Section, Table, Terms, number
from backcast.report._summary import ResultSummary
from backcast.report.replay_charts import LOGGED, WEIGHT_CLASSES, action_shares, replay_charts

HEALTH_GRADES = {"ok": "good", "warn": "fair", "fail": "poor"}
HEALTH_VERDICTS = {
    "ok": "The checks found no problem in the log.",
    "warn": "The log can be used; read the warnings below before you rely on the numbers.",
    "fail": "Do not rely on the numbers above: the log has faults that make estimates wrong.",
}
ESTIMATED = "Propensities were estimated from the log, not recorded; intervals do not include the error of that."
MISSING_LOG_NOTE = (
    "Sections about the log and the replay are left out, because the log was no longer in memory when this page was "
    "made; save_report(result, path, log=log) adds them."
)
NO_PROBLEM = "The diagnostics of the estimates and the checks of the log show no problem."
BIAS = (
    "A learning policy is evaluated by simulating histories from logged events. If the log has too few events of a "
    "kind, a simulated history can differ from a live one. The bias certificate is an upper bound, estimated from the "
    "log, on the share of simulated histories that would differ live. The bias of the value is therefore at most the "
    "certificate times the reward range, and usually far smaller. A certificate near 0 rules out a relevant bias; a "
    "large one means that a bias is possible, not that it exists."
)
CAPTIONS = {
    "exhausted": "How the certificate of one run grows with the rounds: the probability of choices for which no unused "
    "event was left, added up. Flat at zero means that the log had an event for every choice.",
    "accepted": "Share of the events that were accepted into the simulated history, by parts of the log in the order "
    "of the run. A sudden fall means that the policy chooses actions that the logger rarely took.",
    "multiplier": "An event is accepted with probability multiplier times weight. A smaller multiplier means less "
    "bias, but fewer accepted events.",
    "weights": "The weight of an event is the policy's probability of the logged action divided by the logger's; for "
    "clock replay it is averaged over the rounds. Weights near 1 mean that the log contains what the policy does; a "
    "few large weights among many of 0 mean that little of the log informs the estimate.",
    "actions": "Bars: the share of each action in the log. Points: the share of each action under each policy, over "
    "the run.",
}


def trust_section(content: ReportContent) -> Section:
    """Return what could be wrong, in the order of importance, and what the numbers assume."""
    concerns = list(_concerns(content))
    blocks: list[Block] = [Items(concerns)] if concerns else []
    if not any(cell.grade for cell in concerns):
        blocks.insert(0, Paragraph(NO_PROBLEM, grade="good"))
    if content.lacks_log:
        blocks.append(Paragraph(MISSING_LOG_NOTE, is_note=True))
    return Section("trust", "Trust", "What could be wrong", blocks)


def _concerns(content: ReportContent) -> Iterator[Cell]:
    """Yield faults of the log, poor estimates, warnings about the log, fair estimates, and then the assumptions."""
    faults = () if content.health is None else content.health.faults
    for verdict, grade in (("fail", "poor"), ("warn", "fair")):
        for finding in faults:
            if finding.verdict == verdict:
                yield Cell(f"The log: {finding.message}", tuple(filter(None, [finding.remedy])), grade)
        yield from _graded_concerns(content.summary, grade)
    estimates = content.summary.estimates.values()
    if any(estimate.diagnostics.to_dict().get("propensities_estimated") for estimate in estimates):
        yield Cell(ESTIMATED)
    assumptions = {describe_assumption(each.interval): None for each in estimates if each.interval is not None}
    for assumption in assumptions:
        yield Cell(f"The interval {assumption}.")


def _graded_concerns(summary: ResultSummary, grade: str) -> Iterator[Cell]:
    """Yield one concern for each reason, with the policies that it concerns and the remedies."""
    names: dict[str, list[str]] = {}
    for name, estimate in summary.estimates.items():
        for reason in estimate.reliability.reasons if estimate.reliability.grade == grade else ():
            names.setdefault(reason, []).append(name)
    for reason, concerned in names.items():
        remedies = dict.fromkeys(summary.estimates[name].reliability.next_step for name in concerned)
        yield Cell(f"{join_names(concerned)}: {printable(reason)}.", tuple(filter(None, remedies)), grade)


def bias_section(content: ReportContent) -> Section | None:
    """Return the bias certificates of policies whose histories were simulated; None if there is no such policy."""
    rows = []
    for name, estimate in content.summary.estimates.items():
        certificate = {each.name: each for each in grade_diagnostics(estimate)}.get("bias certificate")
        if certificate is not None:
            judgement = Cell(certificate.judgement, grade=certificate.grade)
            rows.append((name, number(certificate.figure), number(format_number(bias_bound(estimate))), judgement))
    if not rows:
        return None
    table = Table(
        "certificates",
        "Bias certificates, and the largest bias that they allow, in units of reward",
        ("Policy", "Certificate", "Largest bias", "Judgement"),
        rows,
    )
    charts = replay_charts(content.summary, content.replays)
    drawn = [Chart("exhausted", charts["exhausted"], CAPTIONS["exhausted"])] if "exhausted" in charts else []
    return Section("bias", "Bias", "Could the simulation be biased?", (Paragraph(BIAS), table, *drawn))


def diagnostics_section(content: ReportContent) -> Section:
    """Return every diagnostic, with one column per policy."""
    estimates = content.summary.estimates
    columns = [{d.name: d for d in grade_diagnostics(estimate)} for estimate in estimates.values()]
    diagnostics: dict[str, GradedDiagnostic] = {}
    for column in columns:
        diagnostics |= {name: diagnostic for name, diagnostic in column.items() if name not in diagnostics}
    rows = [
        [Cell(name, (diagnostic.meaning,)), *(_diagnostic_cell(column.get(name)) for column in columns)]
        for name, diagnostic in diagnostics.items()
    ]
    caption = "Diagnostics of each evaluation; the judgements are rules of thumb"
    table = Table("reliability", caption, ("Diagnostic", *estimates), rows, is_matrix=True)
    return Section("reliability", "Diagnostics", "All diagnostics", (table,))


def _diagnostic_cell(diagnostic: GradedDiagnostic | None) -> Cell:
    if diagnostic is None:
        return Cell("")
    return Cell(diagnostic.figure, tuple(filter(None, [diagnostic.judgement])), diagnostic.grade, is_number=True)


def run_section(content: ReportContent) -> Section | None:
    """Return what one run of each policy accepted, how events weigh, and which actions it takes."""
    replays = content.replays
    if not replays:
        return None
    drawn = {
        name: Chart(name, chart, CAPTIONS[name]) for name, chart in replay_charts(content.summary, replays).items()
    }
    blocks: list[Block] = []
    for name, heading in (("accepted", "Accepted events"), ("multiplier", "Multiplier")):
        if name in drawn:
            blocks += [Heading(heading), drawn[name]]
    accepted = acceptance_rows(replays)
    if accepted:
        blocks.append(
            Table(
                "acceptance",
                "Share of events accepted, and mean multiplier, in the part of the log that ends here",
                ("Policy", "Events", "Accepted", "Multiplier"),
                [[name, *map(number, cells)] for name, *cells in accepted],
                folded="Acceptance as a table",
            )
        )
    weights, actions = weight_rows(replays), action_table(replays)
    blocks += [
        Heading("Weights of events"),
        drawn["weights"],
        Table(
            "weights-table",
            "Effective sample size: the number of equally weighted events with the same information",
            ("Policy", "Effective sample size", "Largest weight", "Weight 0"),
            [[row["name"], *(number(row[key]) for key in ("size", "largest", "zero"))] for row in weights],
        ),
        Terms([(row["name"], row["shares"]) for row in weights], folded="Weights by class"),
        Heading("Actions"),
        drawn["actions"],
        Table(
            "actions-table",
            "Share of choices",
            ("Action", *actions["names"]),
            [[row[0], *map(number, row[1:])] for row in actions["rows"]],
            folded="Actions as a table",
        ),
    ]
    return Section("runs", "One run", "One run in detail", blocks)


def acceptance_rows(replays: Mapping[str, ReplaySummary]) -> list[list[str]]:
    """Return policy, events processed, share accepted and multiplier at the end of each part of a run."""
    return [
        [
            name,
            format_number(end),
            format_percent(float(replay.accepted[i])),
            format_number(float(replay.multiplier[i])) if replay.multiplier.size else MISSING,
        ]
        for name, replay in replays.items()
        for i, end in enumerate(replay.ends.tolist())
    ]


def weight_rows(replays: Mapping[str, ReplaySummary]) -> list[dict[str, Any]]:
    """Return one row per policy: effective sample size, largest weight, and shares of events by class of weight."""
    rows = []
    for name, replay in replays.items():
        weights = replay.weights
        shares = dict(zip(WEIGHT_CLASSES, weights.shares.tolist(), strict=True))
        rows.append(
            {
                "name": name,
                "size": f"{format_number(round(weights.effective_sample_size))} of {format_number(replay.events)}",
                "largest": format_number(weights.largest),
                "zero": format_percent(float(weights.shares[0])),
                "shares": ", ".join(f"{kind}: {format_percent(share)}" for kind, share in shares.items() if share > 0),
            }
        )
    return rows


def action_table(replays: Mapping[str, ReplaySummary]) -> dict[str, Any]:
    """Return names for the columns, and rows of an action with its shares."""
    shares: dict[str, list[str]] = {}
    for row in action_shares(replays):
        shares.setdefault(row["action"], []).append(row["share"])
    names = [LOGGED, *(name for name, replay in replays.items() if replay.taken is not None)]
    return {"names": names, "rows": [[action, *cells] for action, cells in shares.items()]}


def health_section(content: ReportContent) -> Section | None:
    """Return the findings of the checks of the log, the worst first."""
    health = content.health
    if health is None:
        return None
    blocks: list[Block] = [Paragraph(HEALTH_VERDICTS[health.verdict], grade=HEALTH_GRADES[health.verdict])]
    blocks.append(Paragraph(". ".join(filter(None, [health.about, str(health.reading or "")])) + "."))
    if health.faults:
        rows = [
            (
                finding.name.replace("_", " "),
                Cell(finding.verdict, grade=HEALTH_GRADES[finding.verdict]),
                Cell(finding.message, tuple(filter(None, [finding.remedy]))),
            )
            for finding in health.faults
        ]
        blocks.append(Table("faults", "Findings, the worst first", ("Check", "Verdict", "Finding and remedy"), rows))
    if health.passed:
        passed = [(finding.name.replace("_", " "), finding.message) for finding in health.passed]
        blocks.append(Terms(passed, folded=f"Checks that passed ({len(passed)})"))
    return Section("health", "The log", "Health of the log", blocks)
