"""contextualbandits: replay on a uniform log with LinUCB, updated in place after each batch of ten events."""

from __future__ import annotations

from contextualbandits.evaluation import evaluateRejectionSampling
from contextualbandits.online import LinUCB

from bench.speed.data import LogShape, load_columns
from bench.speed.timing import PreparedRun, main


def prepare_linucb(shape: LogShape, limit: int) -> PreparedRun:
    log = load_columns(shape, limit)
    policy = LinUCB(
        nchoices=shape.actions, alpha=0.3, method="sm", ucb_from_empty=True, beta_prior=None, random_state=1
    )

    def run() -> tuple[float, int]:
        value, accepted = evaluateRejectionSampling(
            policy, log.contexts, log.actions, log.rewards, online=True, partial_fit=True, start_point_online=0
        )
        return float(value), int(accepted)

    return PreparedRun("contextualbandits replay", "LinUCB", run)


if __name__ == "__main__":
    main({"linucb": prepare_linucb})
