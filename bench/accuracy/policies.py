"""The learning policies of the accuracy benchmark, by names that the former commit has too (former_answers.py)."""

from __future__ import annotations

from typing import Any

import backcast as bc

# kinds of learners that explore in different ways; one learns in batches
POLICIES: dict[str, Any] = {
    "epsilon-greedy by 15": bc.EpsilonGreedy(0.1, batch_size=15),
    "LinUCB": bc.LinUCB(0.5),
    "softmax": bc.Softmax(0.1),
    "UCB1": bc.UCB1(),
}
