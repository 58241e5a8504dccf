"""How many pieces of work to send out together: what takes long goes alone, and the last keep nobody waiting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

__all__ = ["Pace"]

AHEAD = 2  # loads for each worker that what is left should still be good for

T = TypeVar("T")


class Pace(Generic[T]):
    """Pieces in loads that take about a moment each, from what earlier ones took; smaller ones towards the end.

    ``moment`` is in seconds; 0 sends every piece alone.

    >>> pace = Pace(range(12), workers=1, moment=1.0)
    >>> loads = pace.loads()
    >>> next(loads)
    [0]
    >>> pace.note(pieces=1, seconds=0.25)
    >>> list(loads)
    [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10], [11]]

    By hand: a piece takes a quarter of a second, so four make a moment; of the last three, half is two.
    """

    def __init__(self, pieces: Sequence[T], workers: int, moment: float) -> None:
        self._pieces, self._workers, self._moment = pieces, workers, moment
        self._noted, self._seconds = 0, 0.0

    def note(self, pieces: int, seconds: float) -> None:
        """So many pieces took so long."""
        self._noted += pieces
        self._seconds += seconds

    def loads(self) -> Iterator[list[T]]:
        """All pieces in order."""
        start = 0
        while start < len(self._pieces):
            size = self._size(len(self._pieces) - start)
            yield list(self._pieces[start : start + size])
            start += size

    def _size(self, left: int) -> int:
        if self._noted == 0 or self._moment == 0:
            return 1
        wanted = self._moment * self._noted / max(self._seconds, 1e-9)
        return max(1, int(min(wanted, -(-left // (AHEAD * self._workers)))))
