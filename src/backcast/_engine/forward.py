"""A policy run forward: contexts arrive, it acts, rewards are drawn, it learns. The direct method's engine."""

from __future__ import annotations

from typing import Any

import numpy as np

from backcast._arrays import BoolArray, FloatArray, as_kernel_array
from backcast._engine.reward_law import RewardLaw, draw_reward, draw_rewards
from backcast._kernels.contexts import mask_of, view_of
from backcast._kernels.dispatch import is_builtin, learn, score
from backcast._kernels.jit import compiled, uncached
from backcast.log import Log, replace_columns
from backcast.policies._calls import draw_action, draw_actions, probabilities_of, start_copy, update_on_events
from backcast.policies.base import batch_size_of, is_learning
from backcast.policies.compiled import CompiledPolicy


def _forward(
    state: Any, view: Any, available: BoolArray, means: FloatArray, law: RewardLaw, uniforms: FloatArray, batch: int
) -> FloatArray:
    n, n_actions = means.shape
    expected = np.zeros(n)
    target = np.empty(n_actions)
    actions = np.empty(batch, dtype=np.int64)
    rewards = np.empty(batch)
    shares = np.empty(batch)
    waiting = 0
    for k in range(n):
        score(state, view, k, available, target)
        for a in range(n_actions):
            expected[k] += target[a] * means[k, a]
        actions[waiting] = draw_action(target, uniforms[k, 0])
        rewards[waiting] = draw_reward(law, means[k, actions[waiting]], uniforms[k, 1])
        shares[waiting] = target[actions[waiting]]
        waiting += 1
        if waiting == batch:
            for i in range(batch):
                learn(state, view, k - batch + 1 + i, actions[i], rewards[i], shares[i])
            waiting = 0
    return expected


_forward_cached = compiled(_forward)
_forward_fresh = uncached(_forward)


def run_forward(policy: Any, log: Log, means: FloatArray, law: RewardLaw, rng: np.random.Generator) -> FloatArray:
    """Run a fresh copy of the policy over the log's contexts; expected reward ``sum_a pi_t(a) mean(a)`` by round."""
    policy_copy = start_copy(policy, log, rng)
    uniforms = rng.random((len(log), 2))
    means = as_kernel_array(means)
    if isinstance(policy_copy, CompiledPolicy):
        state = policy_copy.state_for(log.columns.contexts)
        loop = _forward_cached if is_builtin(state) else _forward_fresh
        available = mask_of(log.columns.available)
        expected: FloatArray = loop(
            state, view_of(log.columns.contexts), available, means, law, uniforms, policy_copy.batch_size
        )
        return expected
    return _forward_in_blocks(policy_copy, log, means, law, uniforms)


def _forward_in_blocks(
    policy_copy: Any, log: Log, means: FloatArray, law: RewardLaw, uniforms: FloatArray
) -> FloatArray:
    learning = is_learning(policy_copy)
    batch = batch_size_of(policy_copy) if learning else 1 << 14
    expected = np.empty(len(log))
    for start in range(0, len(log), batch):
        part = log[start : start + batch]
        probabilities = probabilities_of(policy_copy, part)
        block = means[start : start + batch]
        expected[start : start + batch] = (probabilities * block).sum(axis=1)
        if learning and len(part) == batch:
            rows = np.arange(len(part))
            actions = draw_actions(probabilities, uniforms[start : start + batch, 0].copy())
            rewards = draw_rewards(law, block[rows, actions], uniforms[start : start + batch, 1].copy())
            history = replace_columns(part, actions=actions, rewards=rewards)
            update_on_events(policy_copy, history, probabilities[rows, actions])
    return expected
