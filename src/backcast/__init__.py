"""What would this policy have earned?

backcast replays a log of (context, action, reward, propensity) through a policy that may learn as it goes, and says
what the policy would have earned live: a value, an honest interval, and how far to believe it.

Names are loaded when they are first used, so that ``import backcast`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backcast import checks
    from backcast.choosing import DriftWarning
    from backcast.comparison import Comparison, Difference, compare
    from backcast.errors import (
        BackcastError,
        ColumnError,
        Enough,
        EvaluationError,
        HorizonNotReached,
        LogError,
        NeedsStationaryPolicy,
        NeedsUniformLog,
        OptionError,
        PolicyError,
        SourceError,
        WorkError,
    )
    from backcast.estimate import Estimate, Interval, LearningCurve
    from backcast.evaluation import evaluate
    from backcast.evaluators.acceptance import Budget, Quantile, WorstCase
    from backcast.evaluators.clock import ClockReplay, ClockTrace
    from backcast.evaluators.direct import DM
    from backcast.evaluators.distribution import CVaR, RewardDistribution, RewardQuantile, reward_distribution
    from backcast.evaluators.drns import WC, DRns
    from backcast.evaluators.monitor import Monitor
    from backcast.evaluators.rejection import RS, Replay
    from backcast.evaluators.stationary import (
        CAB,
        DR,
        IPS,
        MRDR,
        SNDR,
        SNIPS,
        BaselineIPS,
        ClippedIPS,
        PessimisticDR,
        ShrinkageDR,
        SubGaussian,
        SwitchDR,
    )
    from backcast.evaluators.trace import Trace, trace
    from backcast.health import Finding, HealthReport, PolicyFit, check
    from backcast.intervals.anytime import Anytime
    from backcast.intervals.betting import Betting
    from backcast.intervals.bootstrap import BCa, Bootstrap
    from backcast.intervals.clopper_pearson import ClopperPearson
    from backcast.intervals.cressie_read import CressieRead
    from backcast.intervals.empirical_bernstein import EmpiricalBernstein
    from backcast.intervals.hoeffding import Hoeffding
    from backcast.intervals.jackknife import GroupJackknife
    from backcast.intervals.normal import Normal, Student
    from backcast.intervals.segments import Segments
    from backcast.intervals.theorem_2 import TheoremTwo
    from backcast.log import Log
    from backcast.passage import Passage
    from backcast.planning import Assumed, Plan, plan
    from backcast.policies.arms import UCB1, RoundRobin
    from backcast.policies.classifier import FromClassifier
    from backcast.policies.compiled import Compiled
    from backcast.policies.linear import EpsilonGreedy, LinearThompson, LinUCB, Softmax
    from backcast.policies.protocol import LearningPolicy, Policy
    from backcast.policies.stationary import Fixed, FromScores, Logged, Uniform
    from backcast.propensities import (
        PropensityDiagnostics,
        PropensityEstimate,
        estimate_propensities,
        mix_logs,
        with_estimated_propensities,
    )
    from backcast.report.html import save_report
    from backcast.reward_models import (
        Constant,
        CrossFit,
        Fitted,
        Joint,
        LowVariance,
        PerAction,
        Progressive,
        RewardModel,
        Split,
    )
    from backcast.saved import Saved, load_result, save_result
    from backcast.sources.arrow import read_log, scan_log
    from backcast.sources.obd import read_obd
    from backcast.sources.stream import LogStream
    from backcast.sources.vw import read_vw

__version__ = "0.1.0"

_HOMES = {
    "backcast.errors": (
        "BackcastError",
        "ColumnError",
        "Enough",
        "EvaluationError",
        "HorizonNotReached",
        "LogError",
        "NeedsStationaryPolicy",
        "NeedsUniformLog",
        "OptionError",
        "PolicyError",
        "SourceError",
        "WorkError",
    ),
    "backcast.choosing": ("DriftWarning",),
    "backcast.comparison": ("Comparison", "Difference", "compare"),
    "backcast.estimate": ("Estimate", "Interval", "LearningCurve"),
    "backcast.evaluation": ("evaluate",),
    "backcast.evaluators.acceptance": ("Budget", "Quantile", "WorstCase"),
    "backcast.evaluators.direct": ("DM",),
    "backcast.evaluators.drns": ("WC", "DRns"),
    "backcast.evaluators.monitor": ("Monitor",),
    "backcast.evaluators.rejection": ("RS", "Replay"),
    "backcast.evaluators.distribution": ("CVaR", "RewardDistribution", "RewardQuantile", "reward_distribution"),
    "backcast.evaluators.stationary": (
        "BaselineIPS",
        "CAB",
        "ClippedIPS",
        "DR",
        "IPS",
        "MRDR",
        "PessimisticDR",
        "SNDR",
        "SNIPS",
        "ShrinkageDR",
        "SubGaussian",
        "SwitchDR",
    ),
    "backcast.evaluators.trace": ("Trace", "trace"),
    "backcast.intervals.anytime": ("Anytime",),
    "backcast.intervals.segments": ("Segments",),
    "backcast.intervals.theorem_2": ("TheoremTwo",),
    "backcast.evaluators.clock": (
        "ClockReplay",
        "ClockTrace",
    ),
    "backcast.intervals.jackknife": ("GroupJackknife",),
    "backcast.planning": ("Assumed", "Plan", "plan"),
    "backcast.saved": ("Saved", "load_result", "save_result"),
    "backcast.sources.vw": ("read_vw",),
    "backcast.sources.obd": ("read_obd",),
    "backcast.report.html": ("save_report",),
    "backcast.intervals.normal": ("Normal", "Student"),
    "backcast.intervals.bootstrap": ("BCa", "Bootstrap"),
    "backcast.intervals.hoeffding": ("Hoeffding",),
    "backcast.intervals.empirical_bernstein": ("EmpiricalBernstein",),
    "backcast.intervals.clopper_pearson": ("ClopperPearson",),
    "backcast.intervals.cressie_read": ("CressieRead",),
    "backcast.intervals.betting": ("Betting",),
    "backcast.health": ("Finding", "HealthReport", "PolicyFit", "check"),
    "backcast.propensities": (
        "PropensityDiagnostics",
        "PropensityEstimate",
        "estimate_propensities",
        "mix_logs",
        "with_estimated_propensities",
    ),
    "backcast.log": ("Log",),
    "backcast.passage": ("Passage",),
    "backcast.policies.arms": ("UCB1", "RoundRobin"),
    "backcast.policies.classifier": ("FromClassifier",),
    "backcast.policies.compiled": ("Compiled",),
    "backcast.policies.linear": ("EpsilonGreedy", "LinUCB", "LinearThompson", "Softmax"),
    "backcast.policies.protocol": ("LearningPolicy", "Policy"),
    "backcast.policies.stationary": ("Fixed", "FromScores", "Logged", "Uniform"),
    "backcast.reward_models": (
        "Constant",
        "CrossFit",
        "Fitted",
        "Joint",
        "LowVariance",
        "PerAction",
        "Progressive",
        "RewardModel",
        "Split",
    ),
    "backcast.sources.arrow": ("read_log", "scan_log"),
    "backcast.sources.stream": ("LogStream",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "CAB",
    "DM",
    "DR",
    "IPS",
    "MRDR",
    "RS",
    "SNDR",
    "SNIPS",
    "UCB1",
    "WC",
    "Anytime",
    "Assumed",
    "BCa",
    "BackcastError",
    "BaselineIPS",
    "Betting",
    "Bootstrap",
    "Budget",
    "CVaR",
    "ClippedIPS",
    "ClockReplay",
    "ClockTrace",
    "ClopperPearson",
    "ColumnError",
    "Comparison",
    "Compiled",
    "Constant",
    "CressieRead",
    "CrossFit",
    "DRns",
    "Difference",
    "DriftWarning",
    "EmpiricalBernstein",
    "Enough",
    "EpsilonGreedy",
    "Estimate",
    "EvaluationError",
    "Finding",
    "Fitted",
    "Fixed",
    "FromClassifier",
    "FromScores",
    "GroupJackknife",
    "HealthReport",
    "Hoeffding",
    "HorizonNotReached",
    "Interval",
    "Joint",
    "LearningCurve",
    "LearningPolicy",
    "LinUCB",
    "LinearThompson",
    "Log",
    "LogError",
    "LogStream",
    "Logged",
    "LowVariance",
    "Monitor",
    "NeedsStationaryPolicy",
    "NeedsUniformLog",
    "Normal",
    "OptionError",
    "Passage",
    "PerAction",
    "PessimisticDR",
    "Plan",
    "Policy",
    "PolicyError",
    "PolicyFit",
    "Progressive",
    "PropensityDiagnostics",
    "PropensityEstimate",
    "Quantile",
    "Replay",
    "RewardDistribution",
    "RewardModel",
    "RewardQuantile",
    "RoundRobin",
    "Saved",
    "Segments",
    "ShrinkageDR",
    "Softmax",
    "SourceError",
    "Split",
    "Student",
    "SubGaussian",
    "SwitchDR",
    "TheoremTwo",
    "Trace",
    "Uniform",
    "WorkError",
    "WorstCase",
    "check",
    "checks",
    "compare",
    "estimate_propensities",
    "evaluate",
    "load_result",
    "mix_logs",
    "plan",
    "read_log",
    "read_obd",
    "read_vw",
    "reward_distribution",
    "save_report",
    "save_result",
    "scan_log",
    "trace",
    "with_estimated_propensities",
]


def __getattr__(name: str) -> object:
    if name == "checks":
        return importlib.import_module("backcast.checks")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'backcast' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
