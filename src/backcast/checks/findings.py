"""What the doctor says: findings, each with a verdict, a figure and a remedy, and the report of all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from backcast.errors import OptionError

Verdict: TypeAlias = Literal["ok", "warn", "fail"]


ORDER: tuple[Verdict, ...] = ("ok", "warn", "fail")


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """The worst of several verdicts.

    >>> worst(["ok", "fail", "warn"])
    'fail'
    """
    return max(verdicts, key=ORDER.index, default="ok")


@dataclass(frozen=True)
class Finding:
    """One thing looked at.

    Attributes
    ----------
    name
        What was looked at.
    verdict
        "ok"; "warn", for what may be so but must be known; "fail", for what makes estimates wrong.
    figure
        The number behind the verdict, nan where there is none.
    message
        What was found.
    remedy
        What to do about it; empty where nothing needs doing.
    """

    name: str
    verdict: Verdict
    figure: float
    message: str
    remedy: str = ""


@dataclass(frozen=True)
class PolicyFit:
    """How a log suits a policy.

    Attributes
    ----------
    policy, learning
        Which one, and whether it learns; a learning policy is judged as it starts.
    effective_sample_size
        ``(sum w)^2 / sum w^2`` of the weights ``w = pi/p``: how many events the log is worth to this policy.
    mean_weight
        1 where the policy only does what the logger may do; below by the share of what it never does.
    largest_weights
        The rows of the largest weights, and these weights.
    evaluator, reason
        The evaluator that fits, and why.
    """

    policy: str
    learning: bool
    effective_sample_size: float
    mean_weight: float
    largest_weights: tuple[tuple[int, float], ...]
    evaluator: str
    reason: str

    def __str__(self) -> str:
        rows = ", ".join(f"row {row}: {weight:.4g}" for row, weight in self.largest_weights)
        return (
            f"{self.policy}: effective sample size {self.effective_sample_size:,.0f}, mean weight "
            f"{self.mean_weight:.3f}, largest weights {rows}\nEvaluator that fits: {self.evaluator} ({self.reason})"
        )


@dataclass(frozen=True)
class HealthReport:
    """All findings about a log, and how it suits a policy if one was given.

    Examples
    --------
    >>> report = HealthReport("Log(9 events, 2 actions, 1 feature)", (Finding("duplicates", "ok", 0.0, "none"),))
    >>> report.verdict, report["duplicates"].figure
    ('ok', 0.0)
    """

    about: str
    findings: tuple[Finding, ...]
    policy: PolicyFit | None = None

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all findings."""
        return worst([finding.verdict for finding in self.findings])

    @property
    def faults(self) -> tuple[Finding, ...]:
        """The findings that are not ok, the worst first."""
        found = [finding for finding in self.findings if finding.verdict != "ok"]
        return tuple(sorted(found, key=lambda finding: -ORDER.index(finding.verdict)))

    def __getitem__(self, name: str) -> Finding:
        for finding in self.findings:
            if finding.name == name:
                return finding
        raise OptionError(f"there is no finding {name!r}; there are {', '.join(f.name for f in self.findings)}")

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, strings, lists and dicts, for JSON (nan becomes None)."""
        findings = [asdict(finding) for finding in self.findings]
        for finding in findings:
            finding["figure"] = finding["figure"] if math.isfinite(finding["figure"]) else None
        policy = None if self.policy is None else asdict(self.policy)
        if policy is not None:
            policy["largest_weights"] = [list(pair) for pair in policy["largest_weights"]]
        return {"log": self.about, "verdict": self.verdict, "findings": findings, "policy": policy}

    def __str__(self) -> str:
        quiet = [finding.name for finding in self.findings if finding.verdict == "ok"]
        lines = [f"{self.about}: {self.verdict}"]
        for finding in self.faults:
            lines += [f"{finding.verdict}  {finding.name}: {finding.message}", f"      {finding.remedy}"]
        if quiet:
            lines.append(f"ok    {', '.join(quiet)}")
        if self.policy is not None:
            lines.append(str(self.policy))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from backcast.report.notebook import health_html

        return health_html(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from backcast.report.notebook import mime_bundle

        return mime_bundle(str(self), self._repr_html_(), include, exclude)
