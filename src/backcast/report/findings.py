"""What a report is about: one estimate, several by name, or a comparison of them, in one shape."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from backcast.errors import OptionError
from backcast.estimate import Estimate

__all__ = ["Findings", "clean", "findings_of"]

# what no XML file may hold, and what turns the direction of the text around it
WRITTEN_OUT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Findings:
    """Estimates by name, best first, with paired differences and chances of being best where they are known.

    A difference has ``first, second, value, std_error, interval``; ``ranking`` holds ``(name, probability)`` pairs;
    ``notes`` are about all of them.
    """

    estimates: dict[str, Estimate]
    differences: tuple[Any, ...] = ()
    ranking: tuple[tuple[str, float], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> str:
        """The name of the estimate of highest value."""
        return next(iter(self.estimates))


def findings_of(result: Any) -> Findings:
    """An estimate, a mapping of names to estimates, or a comparison, as findings.

    >>> findings_of({})
    Traceback (most recent call last):
    ...
    backcast.errors.OptionError: there is no estimate to report; give an Estimate, a dict of them or a comparison
    """
    if isinstance(result, Estimate):
        return Findings({clean(result.policy): result})
    estimates = getattr(result, "estimates", result)
    if not isinstance(estimates, Mapping) or not estimates:
        raise OptionError("there is no estimate to report; give an Estimate, a dict of them or a comparison")
    for name, estimate in estimates.items():
        if not isinstance(estimate, Estimate):
            raise OptionError(f"{name!r} is a {type(estimate).__name__}; a report needs an Estimate for every name")
    best_first = {clean(str(name)): estimates[name] for name in sorted(estimates, key=lambda n: _place(estimates[n]))}
    differences = [_renamed(difference) for difference in getattr(result, "differences", ())]
    return Findings(
        best_first,
        tuple(_in_order(differences, list(best_first))),
        tuple((clean(name), chance) for name, chance in getattr(result, "ranking", ())),
        tuple(getattr(result, "notes", ())),
    )


def _renamed(difference: Any) -> Any:
    return replace(difference, first=clean(difference.first), second=clean(difference.second))


def _in_order(differences: list[Any], names: list[str]) -> list[Any]:
    """Differences as a reader expects them: the better minus the worse, the best policy's first."""
    turned = [d if names.index(d.first) < names.index(d.second) else _turned(d) for d in differences]
    return sorted(turned, key=lambda d: (names.index(d.first), names.index(d.second)))


def _turned(difference: Any) -> Any:
    interval = replace(difference.interval, low=-difference.interval.high, high=-difference.interval.low)
    first, second = difference.second, difference.first
    return replace(difference, first=first, second=second, value=-difference.value, interval=interval)


def clean(name: str) -> str:
    r"""The name with characters written out that no drawing may hold or that would turn the sentence around them.

    >>> clean("a\0b\u202ec")
    'a\\u0000b\\u202ec'
    """
    return WRITTEN_OUT.sub(lambda found: f"\\u{ord(found[0]):04x}", name)


def _place(estimate: Estimate) -> float:
    """Where an estimate stands: the highest value first, no value last."""
    return -estimate.value if estimate.value == estimate.value else float("inf")
