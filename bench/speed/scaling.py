"""Sweeps over the log's length, the number of actions and of features, and the acceptance rate."""

from __future__ import annotations

from dataclasses import dataclass

from bench.common.output import print_status
from bench.speed.cases import Case, run_case
from bench.speed.ours import ACCEPTANCES
from bench.speed.timing import Timing

LENGTHS = [10**4, 10**5, 10**6, 10**7]
ACTIONS = [2, 5, 10, 20, 50, 100, 200]
FEATURES = [2, 5, 10, 20, 50, 100, 200]
REPEAT = 3


@dataclass(frozen=True)
class Point:
    """One measurement of a sweep: its position on the sweep's axis, and its timing."""

    sweep: str
    policy: str
    at: float
    timing: Timing

    @property
    def acceptance_rate(self) -> float:
        return (self.timing.accepted or 0) / self.timing.events

    @property
    def nanoseconds(self) -> float:
        """Time per event."""
        return 1e9 * self.timing.seconds / self.timing.events


def list_cases(scale: float) -> list[tuple[str, float, Case]]:
    """Return name, position and case of every point; LinUCB, whose time grows as ``K d^2``, has no large sizes."""
    size = int(200_000 * scale)

    def case(runner: str, n: int, k: int, d: int) -> Case:
        return Case("ours", runner, n, (n, k, d), REPEAT)

    lengths = [int(n * scale) for n in LENGTHS]
    greedy = "epsilon-greedy"
    return [
        *[("events", n, case(runner, n, 10, 20)) for n in lengths for runner in (greedy, "linucb")],
        *[("actions", k, case(greedy, size, k, 20)) for k in ACTIONS],
        *[("actions", k, case("linucb", size, k, 20)) for k in ACTIONS if k <= 50],
        *[("features", d, case(greedy, size, 10, d)) for d in FEATURES],
        *[("features", d, case("linucb", size, 10, d)) for d in FEATURES if d <= 50],
        *[("multiplier", c, case(f"accept-{c:g}", size, 10, 20)) for c in ACCEPTANCES],
        *[("quantile", n, Case("limit", "quantile", n, (n, 10, 20), REPEAT)) for n in lengths],
    ]


def measure_sweeps(scale: float) -> list[Point]:
    points = []
    for sweep, at, case in list_cases(scale):
        timing = run_case(case)
        print_status(f"{sweep} {at:g}, {timing.work}: {timing.seconds:.3f} s")
        points.append(Point(sweep, timing.work, at, timing))
    return points
