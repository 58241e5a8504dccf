"""Choosing among language models: which router gives the best answers for its cost?

A service sends each prompt to one of three models. Its log has features of the prompt (context), the model that was
called (action), and the quality of the answer minus its cost (reward); a quarter of the prompts went to a random
model, so every choice has a known probability. Evaluated on that log: always the same model, a rule of thumb, and a
router that learns.

    python examples/routing.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

import backcast as bc

MODELS = ("small", "medium", "large")
COST = np.array([0.02, 0.15, 0.35])  # per call, in units of the value of a perfect answer
SKILL = np.array([0.65, 0.80, 1.00])  # the hardest prompt that is answered well half of the time
FEATURES = ("length", "code", "mathematics", "one")


def main() -> None:
    log = routing_log(6_000)
    print(f"{log}: {log.rewards.mean():.3f} per prompt under the logged router.")

    fixed = {f"always {model}": bc.Fixed(np.eye(3)[i]) for i, model in enumerate(MODELS)}
    rules = {**fixed, "rule of thumb": bc.Fixed(rule_of_thumb)}
    for name, policy in rules.items():
        estimate = bc.evaluate(log, policy)
        print(f"{name:14} {estimate.value:.3f} {estimate.interval}")

    router = bc.evaluate(log, bc.LinUCB(0.3, batch_size=20), horizon=200, replicates=90, exchangeable=True)
    print("\nA router that learns, over its first 200 prompts:")
    print(router)
    print(f"At the end it earns {router.curve.value[-1]:.3f} per prompt." if router.curve else "")


def rule_of_thumb(contexts: Any) -> Any:
    """Send mathematics to the large model, code to the medium one, other prompts to the small one."""
    mathematics = contexts[:, 2] == 1
    code = (contexts[:, 1] == 1) & ~mathematics
    return np.column_stack([~code & ~mathematics, code, mathematics]).astype(float)


def routing_log(prompts: int, exploring: float = 0.25) -> bc.Log:
    """Simulate a month: the service routes by length and explores a quarter of the time."""
    rng = np.random.default_rng(0)
    length = rng.beta(2, 5, prompts)
    code, mathematics = rng.random(prompts) < 0.3, rng.random(prompts) < 0.15
    contexts = np.column_stack([length, code, mathematics, np.ones(prompts)]).astype(float)

    usual = np.digitize(length, [0.25, 0.5])
    logging = np.full((prompts, 3), exploring / 3)
    logging[np.arange(prompts), usual] += 1 - exploring
    chosen = (logging.cumsum(axis=1) > rng.random(prompts)[:, None]).argmax(axis=1)

    difficulty = 0.25 + 0.4 * length + 0.2 * code + 0.45 * mathematics
    good = 1 / (1 + np.exp(8 * (difficulty - SKILL[chosen])))
    quality = np.clip(good + rng.normal(0, 0.1, prompts), 0, 1)
    return bc.Log(
        contexts,
        np.array(MODELS)[chosen],
        quality - COST[chosen],
        logging[np.arange(prompts), chosen],
        action_labels=MODELS,
        reward_range=(-0.35, 0.98),
    )


if __name__ == "__main__":
    main()
