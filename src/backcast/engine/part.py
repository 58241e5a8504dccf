"""A part of the log while it is fed to a run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from backcast.engine.events import Events, TraceArrays
from backcast.engine.scoring import Asker
from backcast.kernels.views import View, view_of
from backcast.log import Log

__all__ = ["Part"]


@dataclass
class Part:
    """A part of the log while it is fed, with what is worked out at its first use and kept."""

    log: Log
    events: Events
    trace: TraceArrays
    packed: tuple[Any, Any] | None = None
    _asker: Asker | None = None

    @cached_property
    def view(self) -> View:
        """The contexts for compiled policies."""
        return view_of(self.log._contexts)

    def asker(self, policy: Any) -> Asker:
        """The policy of the present trajectory, asked about this part."""
        if self._asker is None:
            self._asker = Asker(policy, self.log)
        return self._asker

    def forget(self) -> None:
        """A new trajectory begins: the policy and the arrays of its run are others."""
        self.packed = self._asker = None
