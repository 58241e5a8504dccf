"""DR-ns: doubly robust estimation with rejection sampling at an adaptive rate, for policies that learn.

Dudik, Erhan, Langford, Li, "Sample-efficient Nonstationary Policy Evaluation for Contextual Bandits", UAI 2012.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from backcast.engine.run import Steering
from backcast.errors import OptionError
from backcast.estimate import Estimate
from backcast.evaluators.acceptance import Budget, Quantile, Rule, WorstCase, steer
from backcast.evaluators.permuted import permuted_estimate
from backcast.evaluators.progressive import progressive_policy
from backcast.evaluators.question import Question
from backcast.evaluators.run_intervals import SINGLE_RUN_NOTE, run_interval
from backcast.evaluators.simulation import Simulation, curve_of, diagnose, head_of, simulate
from backcast.options import at_least, count, share

__all__ = ["WC", "DRns"]


@dataclass(frozen=True)
class DRns:
    """Algorithm 1 of the founding paper; ``DRns(q=...)`` with nothing else is that algorithm to the letter.

    Parameters
    ----------
    q
        Quantile of the observed ratios ``p/pi`` that bounds the multiplier: 0 is nearly unbiased, more accepts more.
    c_max
        Largest multiplier; above 1 there is always bias.
    acceptance
        A rule in place of ``q``: ``Quantile(q)``, ``WorstCase()``, ``Budget(eta)``, or a fixed multiplier.
    warm_up
        Events at the head of the log that only fill the ratios, so that the first block is not over-weighted.
    carry
        Whether the ratios are kept from one trajectory to the next.

    Examples
    --------
    >>> DRns(q=0.05).name
    'DRns(q=0.05)'
    """

    q: float | None = None
    c_max: float = 1.0
    acceptance: Rule | None = None
    warm_up: int = 0
    carry: bool = False

    def __post_init__(self) -> None:
        at_least("c_max", self.c_max, 0.0, strict=True)
        count("warm_up", self.warm_up, 0)
        if self.q is not None:
            share("q", self.q)
        if self.q is not None and self.acceptance is not None:
            raise OptionError("give q or acceptance, not both: q is short for acceptance=Quantile(q)")

    @property
    def rule(self) -> Rule:
        """The acceptance rule in force."""
        if self.acceptance is not None:
            return self.acceptance
        return Quantile(0.01 if self.q is None else self.q)

    @property
    def name(self) -> str:
        """How results call it."""
        rule = f"q={self.rule.q:g}" if isinstance(self.rule, Quantile) else f"{self.rule}"
        rest = [f"c_max={self.c_max:g}"] * (self.c_max != 1) + [f"warm_up={self.warm_up}"] * (self.warm_up > 0)
        return f"DRns({', '.join([rule, *rest, *['carry=True'] * self.carry])})"

    def prepared(self, question: Question) -> tuple[Question, Steering]:
        """The question without the events set aside, and how the multiplier moves."""
        aside = self.rule.calibration if isinstance(self.rule, Budget) else self.warm_up
        head, rest = head_of(question.log, aside)
        question = replace(question, log=rest)
        return question, steer(self.rule, question, self.c_max, carry=self.carry, warm_up=head)

    def answer(self, question: Question) -> Estimate:
        """Estimate by ``R / C``, averaged over complete trajectories; over replicates too, where they are asked for."""
        if question.replicates is not None:
            return permuted_estimate(self, question)
        question, steering = self.prepared(question)
        return doubly_robust_estimate(question, simulate(question, steering), self.name)


@dataclass(frozen=True)
class WC:
    """DR-ns with the worst-case multiplier ``min mu``: unbiased simulation, few acceptances (Dudik et al. 2012, 4.1).

    Examples
    --------
    >>> WC().name
    'WC'
    """

    @property
    def name(self) -> str:
        """How results call it."""
        return "WC"

    def prepared(self, question: Question) -> tuple[Question, Steering]:
        """The question as it is, with a fixed multiplier."""
        return question, steer(WorstCase(), question, 1.0, carry=False, warm_up=None)

    def answer(self, question: Question) -> Estimate:
        """Estimate by ``R / C``, averaged over complete trajectories; over replicates too, where they are asked for."""
        if question.replicates is not None:
            return permuted_estimate(self, question)
        question, steering = self.prepared(question)
        return doubly_robust_estimate(question, simulate(question, steering), self.name)


def doubly_robust_estimate(question: Question, found: Simulation, name: str) -> Estimate:
    """The estimate from a run: mean of ``R / C`` over the complete trajectories."""
    values = found.values(lambda trajectory: trajectory.value)
    error, interval = run_interval(question, found, values)
    log = found.log
    return Estimate(
        value=float(values.mean()),
        std_error=error,
        interval=interval,
        diagnostics=diagnose(question, found),
        policy=question.policy_name,
        evaluator=name,
        curve=curve_of(found.curve, question.level),
        horizon=question.horizon,
        notes=(SINGLE_RUN_NOTE,) if values.size == 1 else (),
        settings={"seed": question.seed, "level": question.level},
        _progressive=None
        if log is None
        else lambda: progressive_policy(question.policy, log, found.complete, question.seed),
    )
