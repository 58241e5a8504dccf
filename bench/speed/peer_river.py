"""river: replay on a uniform log with its disjoint LinUCB."""

from __future__ import annotations

from river.bandit import LinUCBDisjoint, evaluate_offline
from river.stats import Mean

from bench.speed.data import LogShape, load_columns
from bench.speed.timing import PreparedRun, main


def prepare_linucb(shape: LogShape, limit: int) -> PreparedRun:
    log = load_columns(shape, limit)
    arms = list(range(shape.actions))
    contexts = [dict(enumerate(row)) for row in log.contexts.tolist()]
    history = [(arms, *row) for row in zip(contexts, log.actions.tolist(), log.rewards.tolist(), strict=True)]

    def run() -> tuple[float, int]:
        reward, accepted = evaluate_offline(LinUCBDisjoint(seed=1), history, reward_stat=Mean())
        return reward.get(), accepted

    return PreparedRun("river replay", "LinUCB", run)


if __name__ == "__main__":
    main({"linucb": prepare_linucb})
