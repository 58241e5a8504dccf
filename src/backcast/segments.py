"""Breakdown and SegmentResult: the lifts of a comparison by segment, with intervals that hold together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from backcast._equality import ContentEquality
from backcast._serialization import from_json, to_json
from backcast.errors import OptionError
from backcast.estimate import LOGGED, Difference
from backcast.verdict import Decision


@dataclass(frozen=True, eq=False)
class SegmentResult(ContentEquality):
    """One segment: what the log and the policies earn in it, per round.

    The history of a learning policy is one for all segments; its value is read in each.

    Attributes
    ----------
    name
        The value of the segment column; "other" for values of few events together, "missing" for events without one.
    labels
        The values of the column that are in the segment.
    events, share
        Its events, and their share of the log.
    baseline
        Value of the baseline in the segment.
    values, lifts
        Value of each policy, and how much more it earns than the baseline, with intervals that hold together for all
        segments and policies.
    decisions
        "better", "worse", "unclear" or "not trustworthy" for each policy; "unclear" where the segment is "other", or
        fewer than 30 effective events carry the lift.
    """

    name: str
    labels: tuple[str, ...]
    events: int
    share: float
    baseline: float
    values: dict[str, float]
    lifts: dict[str, Difference]
    decisions: dict[str, Decision]


@dataclass(frozen=True, eq=False)
class Breakdown(ContentEquality):
    """A comparison by the segments of one column, largest segment first; ``breakdown["phone"]`` is one of them.

    Attributes
    ----------
    column
        The segment column.
    segments
        The segments with their lifts.
    baseline_name
        What lifts are over: "logged", or a policy.
    notes
        Sentences a reader must know: what was pooled, and for which family the intervals hold.

    Examples
    --------
    >>> import numpy as np
    >>> from backcast.comparison import compare
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> actions = np.arange(400) % 2
    >>> device = np.repeat(["phone", "desk"], [300, 100])
    >>> log = Log(None, actions, actions * (device == "phone"), np.full(400, 0.5), segments={"device": device})
    >>> found = compare(log, {"one": Fixed([0.0, 1.0])}).by_segment("device")
    >>> [(segment.name, round(segment.lifts["one"].value, 2), segment.decisions["one"]) for segment in found]
    [('phone', 0.5, 'better'), ('desk', 0.0, 'unclear')]
    """

    column: str
    segments: tuple[SegmentResult, ...]
    baseline_name: str = LOGGED
    notes: tuple[str, ...] = field(default=())

    def __iter__(self) -> Iterator[SegmentResult]:
        return iter(self.segments)

    def __len__(self) -> int:
        return len(self.segments)

    def __getitem__(self, name: str) -> SegmentResult:
        for segment in self.segments:
            if segment.name == name or name in segment.labels:
                return segment
        names = ", ".join(segment.name for segment in self.segments)
        raise OptionError(f"{self.column} has no segment {name!r}; the segments are {names}")

    def __str__(self) -> str:
        lines = [
            f"{self.column} = {segment.name} ({segment.events:,} events): {lift}, {segment.decisions[policy]}"
            for segment in self.segments
            for policy, lift in segment.lifts.items()
        ]
        return "\n".join([*lines, *self.notes])

    def to_frame(self) -> Any:
        """Return one row per segment and policy as an Arrow table.

        Columns: segment, policy, events, share, baseline_value, value, lift, lift_std_error, lift_low, lift_high,
        relative_lift, baseline, decision.
        """
        from backcast.report.frames import segments_frame

        return segments_frame(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as numbers, strings, lists and dicts, for JSON."""
        return dict(to_json(self))

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Breakdown:
        """Return the breakdown that :meth:`to_dict` made plain."""
        return from_json(cls, plain, "breakdown")
