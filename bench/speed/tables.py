"""Measurements into Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bench.speed.cases import Case, Target
from bench.speed.scaling import Point, acceptance_rate
from bench.speed.timing import Timing

Results = Mapping[Case, Timing | str]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rows])


def systems(results: Results) -> str:
    rows = [
        [t.system, t.work, f"{t.events:,}", f"{t.seconds:.3f}", f"{t.rate:,.0f}", f"{t.value:.4f}"]
        if isinstance(t, Timing)
        else [case.module, case.runner, f"{case.limit:,}", "", f"left out: {t}", ""]
        for case, t in results.items()
    ]
    return table(["system", "policy", "events", "seconds", "events/s", "its estimate"], rows)


def comparisons(targets: Iterable[Target], results: Results) -> str:
    head = ["work", "against", "ratio", "ratio on the peer's own events", "asked", "reached"]
    return table(head, [comparison(target, results) for target in targets])


def comparison(target: Target, results: Results) -> list[str]:
    peer, ours, prefix = (results[c] for c in (target.peer, target.ours, target.ours.on(target.peer.limit)))
    if not (isinstance(peer, Timing) and isinstance(ours, Timing) and isinstance(prefix, Timing)):
        return [target.work, target.peer.module, "not measured", "", "", ""]
    ratio = ours.rate / peer.rate
    asked = "" if target.factor is None else f"{target.factor:g}×"
    reached = "" if target.factor is None else "yes" if ratio >= target.factor else "no"
    return [target.work, peer.system, times(ratio), times(prefix.rate / peer.rate), asked, reached]


def times(ratio: float) -> str:
    """A ratio with about three figures."""
    return f"{ratio:,.0f}×" if ratio >= 10 else f"{ratio:.2f}×"


def sweeps(points: Iterable[Point]) -> str:
    rows = [
        [
            p.sweep,
            f"{p.at:g}",
            p.policy,
            f"{p.timing.events:,}",
            f"{acceptance_rate(p):.3f}" if p.timing.accepted is not None else "",
            f"{p.timing.seconds:.4f}",
            f"{1e9 * p.timing.seconds / p.timing.events:,.0f}",
        ]
        for p in points
    ]
    return table(["sweep", "at", "policy", "events", "accepted", "seconds", "ns an event"], rows)


def growth(points: Iterable[Point]) -> list[str]:
    """A sentence for each policy: time on the longest log over time on one a hundredth as long."""
    seconds = {(p.policy, p.timing.events): p.timing.seconds for p in points if p.sweep == "events"}
    longest = max(events for _, events in seconds)
    short = longest // 100
    return [
        f"- {policy}: {longest:,} events take {seconds[policy, longest] / seconds[policy, short]:.0f} times as long as "
        f"{short:,} (asked: at most 120)."
        for policy in sorted({policy for policy, _ in seconds})
    ]
