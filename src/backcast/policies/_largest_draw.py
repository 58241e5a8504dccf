"""The probability that each of several independent Gaussian draws is the largest, compiled.

``P(a wins) = integral phi_a(z) prod_{b != a} Phi_b(z) dz`` with the density phi and distribution function Phi of each
draw. Draws that lose against one other draw with near certainty are left out; two draws have a closed form. For more,
nodes at equal distances: integrands that vanish at both ends need fewer of them than Gauss-Legendre nodes (16 instead
of 24 for ten draws that are alike). If the widths of draws are too different for that, Gauss-Legendre quadrature in
panels whose nodes follow the narrowest draw that still varies there. The error of a probability is at most 1e-6 for ten
draws, and 1e-7 per draw for more (tests/policies/test_largest_draw.py).

Sixteen nodes are computed at a time: scores and products in double precision, Phi and phi in single precision, which
adds about 1e-7 to the error of a probability.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from backcast._arrays import BoolArray, FloatArray, IntArray, SingleArray
from backcast._kernels.jit import borrow, compiled, inlined
from backcast._kernels.lanes import (
    LANES,
    add_to_exponent,
    load_affine,
    load_lanes,
    narrow,
    polynomial,
    select_negative,
    size_up_to,
    spread,
    store_lanes,
    sum_lanes,
    widen,
)
from backcast.policies._choice import argmax_probabilities, is_available

TAIL_SDS = 5.3  # standard deviations beyond which a normal tail (6e-8) does not count
TAIL = NormalDist().cdf(-TAIL_SDS)
SAME_SCALE = 1.6  # ratio of standard deviations up to which draws share their panels
# nodes at equal distances: so many per standard deviation of the narrowest draw, and more for many draws, because the
# maximum of many has a smaller deviation; in multiples of the lanes that are computed at once
EQUAL_PER_SD, EQUAL_PER_LOG_DRAWS = 1.4, 0.4
# Gauss-Legendre nodes of a panel: so many, and as before
FIXED_NODES, NODES_PER_SD, NODES_PER_LOG_DRAWS = 4.0, 2.0, 0.3
MOST_NODES = 64
COUNTS = range(0, MOST_NODES + LANES, LANES)
RULES = [np.polynomial.legendre.leggauss(max(n, 1)) for n in COUNTS]
NODES = np.array([np.pad(nodes, (0, MOST_NODES - nodes.size)) for nodes, _ in RULES])
WEIGHTS = np.array([np.pad(weights, (0, MOST_NODES - weights.size)) for _, weights in RULES], dtype=np.float32)
EQUAL_NODES = np.array([(2 * np.arange(MOST_NODES) + 1) / max(n, 1) - 1 for n in COUNTS])
EQUAL_WEIGHTS = np.array([np.full(MOST_NODES, 2 / max(n, 1)) for n in COUNTS], dtype=np.float32)
# standard scores below which j draws are all smaller with probability TAIL
LOW_SCORES = np.array([0.0] + [NormalDist().inv_cdf(TAIL ** (1.0 / j)) for j in range(1, MOST_NODES + 1)])
# scores up to LIMIT count: exp(-x^2/2) is 2e-11 there, so that nothing is left of a narrow draw where others go on
LIMIT = np.float32(7.0)
HALF_LOG2_E = np.float32(-0.5 / math.log(2.0))
INTEGERS = np.float32(1.5 * 2**23)  # a number plus this is rounded to an integer, which is in its last bits
ONE = np.float32(1.0)
# 2^x for |x| <= 1/2, with relative error 8e-8
POWER = tuple(np.float32(c) for c in (1.0000001, 0.69314694, 0.2402212, 0.05550713, 0.009675541, 0.0013276472))
# Phi(-x) / exp(-x^2/2) for 0 <= x <= LIMIT: minimax for Phi(-x), with error 7e-8; with degree 9 it would be 3e-7
TAIL_RATIO = tuple(
    np.float32(c)
    for c in (
        *(0.49999994, -0.3989365, 0.24991687, -0.13251425, 0.061156217, -0.024315849),
        *(0.007940934, -0.0019753505, 0.000339934, -3.523601e-05, 1.6333698e-06),
    )
)


class Draws(NamedTuple):
    """Scratch for the draws of one event: those that may win, their upper ends, and values at the nodes of a panel."""

    mean: FloatArray
    sd: FloatArray
    inverse: FloatArray
    top: FloatArray
    action: IntArray
    wins: FloatArray
    hazards: SingleArray
    product: SingleArray

    @classmethod
    def of_size(cls, n_actions: int) -> Draws:
        """Return scratch for so many actions."""
        mean, sd, inverse, top, wins = (np.zeros(n_actions) for _ in range(5))
        hazards, product = (np.zeros(size, dtype=np.float32) for size in (n_actions * MOST_NODES, MOST_NODES))
        return cls(mean, sd, inverse, top, np.zeros(n_actions, dtype=np.int64), wins, hazards, product)


@compiled
def win_probabilities(means: FloatArray, sds: FloatArray, available: BoolArray, k: int, draws: Draws) -> None:
    """Overwrite ``means`` by the probability that each eligible action's Gaussian draw is the largest.

    >>> means = np.array([1.0, 0.0])
    >>> win_probabilities(means, np.array([0.6, 0.8]), np.ones((0, 0), dtype=np.bool_), 0, Draws.of_size(2))
    >>> means.round(6)
    array([0.841345, 0.158655])

    By hand: the difference is N(1, 1), so the first wins with probability Phi(1) = 0.841345.
    """
    draws = borrow(draws)
    largest_sd, n = select_draws(means, sds, available, k, draws)
    if largest_sd <= 0.0:
        argmax_probabilities(means, available, k)
        return
    low = -np.inf
    if n > 2:
        low = lower_end(n, draws)
        n = drop_losers(low, n, draws)
    mean, sd, action, wins = draws.mean, draws.sd, draws.action, draws.wins
    if n == 1:
        wins[0] = 1.0
    elif n == 2:
        wins[0] = 0.5 * math.erfc((mean[1] - mean[0]) / math.sqrt(2.0 * (sd[0] * sd[0] + sd[1] * sd[1])))
        wins[1] = 1.0 - wins[0]
    else:
        integrate_wins(low, n, draws)
    means[:] = 0.0
    total = 0.0
    for i in range(n):
        total += wins[i]
    inverse = 1.0 / total
    for i in range(n):
        means[action[i]] = wins[i] * inverse


@inlined
def select_draws(means: FloatArray, sds: FloatArray, available: BoolArray, k: int, draws: Draws) -> tuple[float, int]:
    """Select the eligible draws that may win; return the largest standard deviation and their number.

    A draw that is larger than one rival with probability below TAIL is left out. Without branches on the values of
    draws, which a processor predicts wrongly.
    """
    mean, sd, action = draws.mean, draws.sd, draws.action
    rival_mean, rival_sd, best, largest_sd, n = -np.inf, 0.0, -np.inf, 0.0, 0
    for a in range(means.size):
        if is_available(available, k, a):
            mean[n], sd[n], action[n] = means[a], sds[a], a
            low = means[a] - 0.7 * TAIL_SDS * sds[a]
            is_better = low > best
            rival_mean = means[a] if is_better else rival_mean
            rival_sd = sds[a] if is_better else rival_sd
            best = max(best, low)
            largest_sd = max(largest_sd, sds[a])
            n += 1
    n_eligible, n = n, 0
    largest_mean, least_sd = 0.0, np.inf
    for i in range(n_eligible):
        gap = rival_mean - mean[i]
        may_win = (gap <= 0.0) | (gap * gap < TAIL_SDS * TAIL_SDS * (sd[i] * sd[i] + rival_sd * rival_sd))
        mean[n], sd[n], action[n] = mean[i], sd[i], action[i]
        largest_mean = max(largest_mean, abs(mean[i]) if may_win else 0.0)
        least_sd = min(least_sd, sd[i])
        n += may_win
    # a draw without variance has no density: give it a tiny one, above the rounding errors of means
    tiny = 1e-8 * largest_sd + 1e-12 * largest_mean
    if least_sd < tiny:
        for i in range(n):
            sd[i] = max(sd[i], tiny)
    return largest_sd, n


@inlined
def lower_end(n: int, draws: Draws) -> float:
    """Return a point below which the largest draw lies with probability TAIL at most.

    The j-th largest of ``mean + LOW_SCORES[j] sd`` is such a point for every j: j draws would have to be below it.
    """
    mean, sd = draws.mean, draws.sd
    first_of_two = second_of_two = -np.inf
    first = second = third = fourth = -np.inf
    least, score, end = np.inf, LOW_SCORES[min(n, MOST_NODES)], -np.inf
    for a in range(n):
        end = max(end, mean[a] - TAIL_SDS * sd[a])
        least = min(least, mean[a] + score * sd[a])
        value = mean[a] + LOW_SCORES[2] * sd[a]
        second_of_two = max(second_of_two, min(first_of_two, value))
        first_of_two = max(first_of_two, value)
        value = mean[a] + LOW_SCORES[4] * sd[a]
        fourth = max(fourth, min(third, value))
        third = max(third, min(second, value))
        second = max(second, min(first, value))
        first = max(first, value)
    return max(max(end, least), max(second_of_two, fourth))


@inlined
def drop_losers(low: float, n: int, draws: Draws) -> int:
    """Leave out draws above ``low`` with probability below TAIL; write upper ends; return how many draws remain."""
    mean, sd, top, action, wins = draws.mean, draws.sd, draws.top, draws.action, draws.wins
    remaining = 0
    for a in range(n):
        end = mean[a] + TAIL_SDS * sd[a]
        mean[remaining], sd[remaining], action[remaining] = mean[a], sd[a], action[a]
        top[remaining], wins[remaining] = end, 0.0
        remaining += end > low
    return remaining


@compiled
def integrate_wins(low: float, n: int, draws: Draws) -> None:
    """Write the probabilities of ``n`` draws to win, by quadrature from the lower end upwards."""
    draws = borrow(draws)
    sd, top = draws.sd, draws.top
    log_draws = math.log(n / 3.0)
    narrowest, highest = np.inf, low
    for a in range(n):
        draws.inverse[a] = 1.0 / sd[a]
        highest = max(highest, top[a])
        narrowest = min(narrowest, sd[a])
    per_sd = EQUAL_PER_SD + EQUAL_PER_LOG_DRAWS * log_draws
    rule = int(min(per_sd * (highest - low) / narrowest, 2.0 * MOST_NODES) / LANES) + 1
    if rule <= MOST_NODES // LANES:
        half = 0.5 * (highest - low)
        add_panel(low + half, half, low, EQUAL_NODES[rule], EQUAL_WEIGHTS[rule], LANES * rule, n, draws)
        return
    per_sd = NODES_PER_SD + NODES_PER_LOG_DRAWS * log_draws
    while low < highest:
        # a draw varies up to its upper end: the narrowest that still does sets the nodes, up to where it ends
        narrowest = np.inf
        for a in range(n):
            if top[a] > low:
                narrowest = min(narrowest, sd[a])
        high = low
        for a in range(n):
            if sd[a] <= SAME_SCALE * narrowest:
                high = max(high, top[a])
        needed = FIXED_NODES + per_sd * (high - low) / narrowest
        panels = int(needed / MOST_NODES) + 1
        rule = min(int((FIXED_NODES + per_sd * (high - low) / narrowest / panels) / LANES) + 1, MOST_NODES // LANES)
        half = 0.5 * (high - low) / panels
        for panel in range(panels):
            add_panel(low + (2 * panel + 1) * half, half, low, NODES[rule], WEIGHTS[rule], LANES * rule, n, draws)
        low = high


@inlined
def add_panel(
    middle: float,
    half: float,
    low: float,
    nodes: FloatArray,
    weights: SingleArray,
    n_nodes: int,
    n: int,
    draws: Draws,
) -> None:
    """Add what the draws that still vary above ``low`` win in a panel.

    With the product of all Phi, a draw's integrand is that product times its hazard ``phi/Phi``. Products of the
    others, without a division, took longer: they are a second loop over the draws. The product is in double precision:
    in single precision it depends on the order of the actions by 1e-7 of itself, and takes 7 % less time.
    """
    mean, inverse, top, wins, hazards = draws.mean, draws.inverse, draws.top, draws.wins, draws.hazards
    for first in range(0, n_nodes, LANES):
        product = widen(load_lanes(weights, first))
        for a in range(n):
            if top[a] > low:
                score = load_affine(nodes, first, half * inverse[a], (middle - mean[a]) * inverse[a])
                density = exp_of_half_square(size_up_to(score, LIMIT))
                below = distribution(score, density)
                product = product * widen(below)
                store_lanes(hazards, a * MOST_NODES + first, density / below)
        store_lanes(draws.product, first, narrow(product))
    for a in range(n):
        if top[a] > low:
            total = load_lanes(draws.product, 0) * load_lanes(hazards, a * MOST_NODES)
            for first in range(LANES, n_nodes, LANES):
                total = total + load_lanes(draws.product, first) * load_lanes(hazards, a * MOST_NODES + first)
            wins[a] += half * inverse[a] * sum_lanes(total)


@inlined
def exp_of_half_square(x: Any) -> Any:
    """``exp(-x^2/2)``, as a power of two with an integer and a remainder of at most 1/2."""
    exponent = x * x * spread(HALF_LOG2_E)
    shifted = exponent + spread(INTEGERS)
    return add_to_exponent(polynomial(POWER, exponent - (shifted - spread(INTEGERS))), shifted)


@inlined
def distribution(score: Any, density: Any) -> Any:
    """``Phi(score)``, from ``density = exp(-score^2/2)``."""
    tail = density * polynomial(TAIL_RATIO, size_up_to(score, LIMIT))
    return select_negative(score, tail, spread(ONE) - tail)
