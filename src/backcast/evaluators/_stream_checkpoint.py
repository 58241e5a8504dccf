"""StreamCheckpoint: store the state of a pass over a stream, and continue from it.

Stored are the state of the replay after some part and, for a policy that is not compiled, the batches it has learned
since its trajectory started: one file of batches for each time the state was stored. When a pass continues, policy and
reward model must give the same predictions for the last events as they did when the state was stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

import numpy as np

from backcast._arrays import FloatArray
from backcast._engine.replay import ReplayRun
from backcast._parallel.checkpoint import Checkpoint
from backcast.errors import OptionError
from backcast.evaluators._reward_predictions import StreamRewardModel
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.policies._calls import TrainingBatch, batch_from_arrays, batch_to_arrays, class_name_of, probabilities_of

SAVE_SECONDS = 5.0  # seconds between two saves
SAVE_SHARE = 20  # and at least so many times the time that a save takes
PROBE_EVENTS = 8  # events whose predictions are compared


class StreamCheckpoint:
    """Stores a replay of a stream while it runs."""

    def __init__(self, checkpoint: Checkpoint, run: ReplayRun, model: StreamRewardModel) -> None:
        self._checkpoint, self._run, self._model = checkpoint, run, model
        self._next_save = monotonic() + SAVE_SECONDS
        self._batch_files = range(0)
        self._n_trajectories = -1

    def restore(self, log: LogStream) -> LogStream | None:
        """Bring run and model to the stored state; return the remaining stream, or None if nothing remains."""
        stored = self._checkpoint.get("state")
        if stored is None:
            return log
        state = stored.value
        n_events = state["run"]["events"]
        self._batch_files, self._n_trajectories = range(*state["batch files"]), len(state["run"]["complete"])
        n_probe = state["probe events"]
        probe, remainder = log.slice(n_events - n_probe).split_head(n_probe)
        self._run.load_state(state["run"], probe, self._load_batches())
        self._model.load_state(state["model"])
        predictions = self._probe_predictions(probe)
        for name, before in state["predictions"].items():
            if not np.array_equal(before, predictions[name]):
                raise OptionError(
                    f"{name} predicts something else after it was given the same events again, so this run cannot "
                    "continue from its checkpoint; remove the folder and start again. Predictions may depend only on "
                    "what was learned and on the generator that start() passes"
                )
        return remainder

    def save_if_due(self, part: Log, *, last: bool = False) -> None:
        """Store the state after this part, if the last save is long enough ago."""
        if not last and monotonic() < self._next_save:
            return
        start = monotonic()
        self._store_batches()
        state = {
            "run": self._run.state(),
            "model": self._model.state(),
            "batch files": [self._batch_files.start, self._batch_files.stop],
            "probe events": min(PROBE_EVENTS, len(part)),
            "predictions": self._probe_predictions(part[-PROBE_EVENTS:]),
        }
        self._checkpoint.put("state", state)
        self._next_save = monotonic() + max(SAVE_SECONDS, SAVE_SHARE * (monotonic() - start))

    def _store_batches(self) -> None:
        """Store what was learned since the last save; files of trajectories that have ended are not used any more."""
        if len(self._run.trajectories) != self._n_trajectories:
            self._batch_files = range(self._batch_files.stop, self._batch_files.stop)
            self._n_trajectories = len(self._run.trajectories)
        if self._run.batches:
            arrays = [batch_to_arrays(batch) for batch in self._run.batches]
            self._checkpoint.put(f"batches-{self._batch_files.stop}", arrays)
            self._batch_files = range(self._batch_files.start, self._batch_files.stop + 1)
            self._run.batches.clear()

    def _load_batches(self) -> Iterator[TrainingBatch]:
        for number in self._batch_files:
            stored = self._checkpoint.get(f"batches-{number}")
            if stored is None:
                raise OptionError(
                    f"the checkpoint has lost what the policy learned (batches-{number}), so this run cannot continue "
                    "from it; remove the folder and start again"
                )
            yield from map(batch_from_arrays, stored.value)

    def _probe_predictions(self, log: Log) -> dict[str, FloatArray]:
        predictions = self._model.probe(log)
        if self._run.current_policy is not None:
            name = class_name_of(self._run.policy)
            predictions[name] = probabilities_of(self._run.current_policy, log)
        return predictions
