"""The probability that each of several independent Gaussian draws is the largest, compiled.

``P(a wins) = integral phi_a(z) prod_{b != a} Phi_b(z) dz`` with the density phi and distribution function Phi of each
draw. Draws that lose against one other draw with near certainty are left out; two draws have a closed form. For more,
nodes at equal distances: integrands that vanish at both ends need fewer of them than Gauss-Legendre nodes (16 instead
of 24 for ten draws that are alike). If the widths of draws are too different for that, Gauss-Legendre quadrature in
panels whose nodes follow the narrowest draw that still varies there. The error of a probability is at most 1e-6 for ten
draws, and 1e-7 per draw for more (tests/policies/test_largest_draw.py).
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from backcast._arrays import BoolArray, FloatArray, IntArray
from backcast._kernels.jit import borrow, compiled, fused_multiply_add, inlined
from backcast.policies._choice import argmax_probabilities, is_available

TAIL_SDS = 5.3  # standard deviations beyond which a normal tail (6e-8) does not count
TAIL = NormalDist().cdf(-TAIL_SDS)
SAME_SCALE = 1.6  # ratio of standard deviations up to which draws share their panels
# nodes at equal distances: so many per standard deviation of the narrowest draw, and more for many draws, because the
# maximum of many has a smaller deviation; in multiples of eight, which fill the registers of a processor
EQUAL_PER_SD, EQUAL_PER_LOG_DRAWS = 1.4, 0.4
# Gauss-Legendre nodes of a panel: so many, and as before
FIXED_NODES, NODES_PER_SD, NODES_PER_LOG_DRAWS = 4.0, 2.0, 0.3
MOST_NODES = 64
RULES = [np.polynomial.legendre.leggauss(max(n, 1)) for n in range(0, MOST_NODES + 8, 8)]
NODES, WEIGHTS = (np.array([np.pad(rule[i], (0, MOST_NODES - rule[i].size)) for rule in RULES]) for i in (0, 1))
EQUAL_NODES = np.array([(2 * np.arange(MOST_NODES) + 1) / max(n, 1) - 1 for n in range(0, MOST_NODES + 8, 8)])
EQUAL_WEIGHTS = np.array([np.full(MOST_NODES, 2 / max(n, 1)) for n in range(0, MOST_NODES + 8, 8)])
# standard scores below which j draws are all smaller with probability TAIL
LOW_SCORES = np.array([0.0] + [NormalDist().inv_cdf(TAIL ** (1.0 / j)) for j in range(1, MOST_NODES + 1)])
# Phi(x) = 1/2 + x p(2 (x/LIMIT)^2 - 1) for |x| <= LIMIT: least squares at Chebyshev nodes, error below 4e-8
LIMIT = 5.4
P0, P1, P2, P3 = 0.1309281136833908, -0.06532804058333698, 0.048499475080670956, -0.03920727026047595
P4, P5, P6, P7 = 0.032118685585881136, -0.02574234370498216, 0.019631234040163623, -0.013978985903994507
P8 = 0.00969484728790786
P9, P10, P11, P12 = -0.006686624481606779, 0.0035891687767428673, -0.00121146483401832, 0.0009298316890381335
P13, P14 = -0.001020018708996083, 0.0003759828261689944
SCALE = 2.0 / (LIMIT * LIMIT)
INVERSE_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)
LEAST_PHI = 1e-12  # keeps the quotient of density and distribution function finite where the polynomial ends


class Draws(NamedTuple):
    """Scratch for the draws of one event: those that may win, their upper ends, and values at the nodes of a panel."""

    mean: FloatArray
    sd: FloatArray
    top: FloatArray
    action: IntArray
    wins: FloatArray
    ratios: FloatArray
    product: FloatArray

    @classmethod
    def of_size(cls, n_actions: int) -> Draws:
        """Return scratch for so many actions."""
        mean, sd, top, wins = (np.zeros(n_actions) for _ in range(4))
        action = np.zeros(n_actions, dtype=np.int64)
        return cls(mean, sd, top, action, wins, np.zeros((n_actions, MOST_NODES)), np.zeros(MOST_NODES))


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
    mean, sd, action, wins = draws.mean, draws.sd, draws.action, draws.wins
    if largest_sd <= 0.0:
        argmax_probabilities(means, available, k)
        return
    # a draw without variance has no density: give it a tiny one, above the rounding errors of means
    largest_mean = 0.0
    for i in range(n):
        largest_mean = max(largest_mean, abs(mean[i]))
    tiny = 1e-8 * largest_sd + 1e-12 * largest_mean
    for i in range(n):
        sd[i] = max(sd[i], tiny)
    if n == 1:
        wins[0] = 1.0
    elif n == 2:
        wins[0] = 0.5 * math.erfc((mean[1] - mean[0]) / math.sqrt(2.0 * (sd[0] * sd[0] + sd[1] * sd[1])))
        wins[1] = 1.0 - wins[0]
    else:
        integrate_wins(n, draws)
    means[:] = 0.0
    total = 0.0
    for i in range(n):
        total += wins[i]
    for i in range(n):
        means[action[i]] = wins[i] / total


@inlined
def select_draws(means: FloatArray, sds: FloatArray, available: BoolArray, k: int, draws: Draws) -> tuple[float, int]:
    """Select the eligible draws that may win; return the largest standard deviation and their number.

    A draw that is larger than one rival with probability below TAIL is left out.
    """
    rival, best, largest_sd = -1, -np.inf, 0.0
    for a in range(means.size):
        if is_available(available, k, a):
            largest_sd = max(largest_sd, sds[a])
            low = means[a] - 0.7 * TAIL_SDS * sds[a]
            if rival < 0 or low > best:
                rival, best = a, low
    n = 0
    for a in range(means.size):
        gap = means[rival] - means[a]
        reach = TAIL_SDS * TAIL_SDS * (sds[a] * sds[a] + sds[rival] * sds[rival])
        if is_available(available, k, a) and (gap <= 0.0 or gap * gap < reach):
            draws.mean[n], draws.sd[n], draws.action[n] = means[a], sds[a], a
            n += 1
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
        if value > first_of_two:
            first_of_two, second_of_two = value, first_of_two
        elif value > second_of_two:
            second_of_two = value
        value = mean[a] + LOW_SCORES[4] * sd[a]
        if value > first:
            first, second, third, fourth = value, first, second, third
        elif value > second:
            second, third, fourth = value, second, third
        elif value > third:
            third, fourth = value, third
        elif value > fourth:
            fourth = value
    return max(max(end, least), max(second_of_two, fourth))


@compiled
def integrate_wins(n: int, draws: Draws) -> None:
    """Write the probabilities of ``n`` draws to win, by quadrature from the lower end upwards."""
    draws = borrow(draws)
    mean, sd, top, wins = draws.mean, draws.sd, draws.top, draws.wins
    log_draws = math.log(n / 3.0)
    low = lower_end(n, draws)
    narrowest, highest = np.inf, low
    for a in range(n):
        top[a], wins[a] = mean[a] + TAIL_SDS * sd[a], 0.0
        highest = max(highest, top[a])
        if top[a] > low:
            narrowest = min(narrowest, sd[a])
    per_sd = EQUAL_PER_SD + EQUAL_PER_LOG_DRAWS * log_draws
    rule = int(min(per_sd * (highest - low) / narrowest, 2.0 * MOST_NODES) / 8.0) + 1
    if rule <= MOST_NODES // 8:
        half = 0.5 * (highest - low)
        add_panel(low + half, half, low, EQUAL_NODES[rule], EQUAL_WEIGHTS[rule], 8 * rule, n, draws)
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
        rule = min(int((FIXED_NODES + per_sd * (high - low) / narrowest / panels) / 8.0) + 1, MOST_NODES // 8)
        half = 0.5 * (high - low) / panels
        for panel in range(panels):
            add_panel(low + (2 * panel + 1) * half, half, low, NODES[rule], WEIGHTS[rule], 8 * rule, n, draws)
        low = high


@inlined
def add_panel(
    middle: float,
    half: float,
    low: float,
    nodes: FloatArray,
    weights: FloatArray,
    n_nodes: int,
    n: int,
    draws: Draws,
) -> None:
    """Add what the draws that still vary above ``low`` win in a panel."""
    mean, sd, top, wins, product = draws.mean, draws.sd, draws.top, draws.wins, draws.product
    for i in range(n_nodes):
        product[i] = weights[i] * half
    for a in range(n):
        if top[a] > low:
            inverse = 1.0 / sd[a]
            multiply_nodes((middle - mean[a]) * inverse, half * inverse, nodes, product, draws.ratios[a], n_nodes)
    for a in range(n):
        if top[a] > low:
            wins[a] += sum_products(product, draws.ratios[a], n_nodes) / sd[a]


@compiled
def multiply_nodes(
    middle: float, half: float, nodes: FloatArray, product: FloatArray, ratios: FloatArray, n_nodes: int
) -> None:
    """Multiply ``product`` by ``Phi(x)`` at every node ``x = middle + half node``, and write ``phi(x)/Phi(x)``.

    Polynomials without branches, which vectorise: 1.3 nanoseconds per node instead of 20 with ``erfc`` and ``exp``.
    """
    for i in range(n_nodes):
        score = fused_multiply_add(half, nodes[i], middle)
        x = min(max(score, -LIMIT), LIMIT)
        square = x * x
        t = fused_multiply_add(square, SCALE, -1.0)
        p = fused_multiply_add(P14, t, P13)
        p = fused_multiply_add(p, t, P12)
        p = fused_multiply_add(p, t, P11)
        p = fused_multiply_add(p, t, P10)
        p = fused_multiply_add(p, t, P9)
        p = fused_multiply_add(p, t, P8)
        p = fused_multiply_add(p, t, P7)
        p = fused_multiply_add(p, t, P6)
        p = fused_multiply_add(p, t, P5)
        p = fused_multiply_add(p, t, P4)
        p = fused_multiply_add(p, t, P3)
        p = fused_multiply_add(p, t, P2)
        p = fused_multiply_add(p, t, P1)
        p = fused_multiply_add(p, t, P0)
        below = max(fused_multiply_add(p, x, 0.5), LEAST_PHI)
        # exp(-x^2/2) is the 64th power of exp(-x^2/128), whose argument is small enough for five terms
        y = square * (-1.0 / 128.0)
        e = fused_multiply_add(1.0 / 120.0, y, 1.0 / 24.0)
        e = fused_multiply_add(e, y, 1.0 / 6.0)
        e = fused_multiply_add(e, y, 0.5)
        e = fused_multiply_add(e, y, 1.0)
        e = fused_multiply_add(e, y, 1.0)
        e = e * e
        e = e * e
        e = e * e
        e = e * e
        e = e * e
        e = e * e
        e = e if score < TAIL_SDS else 0.0
        product[i] *= below
        ratios[i] = e * INVERSE_SQRT_2PI / below


@compiled
def sum_products(left: FloatArray, right: FloatArray, n: int) -> float:
    """``sum_i left[i] right[i]`` over a multiple of eight terms, in eight chains that a processor overlaps."""
    a = b = c = d = e = f = g = h = 0.0
    for j in range(n // 8):
        i = 8 * j
        a += left[i] * right[i]
        b += left[i + 1] * right[i + 1]
        c += left[i + 2] * right[i + 2]
        d += left[i + 3] * right[i + 3]
        e += left[i + 4] * right[i + 4]
        f += left[i + 5] * right[i + 5]
        g += left[i + 6] * right[i + 6]
        h += left[i + 7] * right[i + 7]
    return ((a + e) + (b + f)) + ((c + g) + (d + h))
