"""Results of checks: Finding, PolicyFit and HealthReport of a log, ContractReport of an extension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from backcast._display import NotebookDisplay
from backcast._equality import ContentEquality
from backcast._serialization import to_json
from backcast.errors import OptionError
from backcast.reading_summary import ReadingSummary

Verdict: TypeAlias = Literal["ok", "warn", "fail"]
VERDICTS: tuple[Verdict, ...] = ("ok", "warn", "fail")  # from best to worst


def worst_verdict(findings: Sequence[Finding]) -> Verdict:
    """Return the worst verdict of the findings.

    >>> worst_verdict([Finding("order", "ok", 0.0, ""), Finding("rewards", "fail", 0.0, "")])
    'fail'
    """
    return max((finding.verdict for finding in findings), key=VERDICTS.index, default="ok")


@dataclass(frozen=True, eq=False)
class Finding(ContentEquality):
    """Result of one check.

    Attributes
    ----------
    name
        Name of the check.
    verdict
        "ok"; "warn", for what may be intended but affects estimates; "fail", for what makes estimates wrong.
    figure
        The number behind the verdict, or nan.
    message
        The result in words.
    remedy
        What to do about it; empty if nothing needs to be done.
    """

    name: str
    verdict: Verdict
    figure: float
    message: str
    remedy: str = ""


@dataclass(frozen=True, eq=False)
class PolicyFit(ContentEquality):
    """How well a log suits a policy.

    Attributes
    ----------
    policy, learning
        Name of the policy, and whether it learns; a learning policy is scored in its initial state.
    effective_sample_size
        ``(sum w)^2 / sum w^2`` of the weights ``w = pi/p``: the number of events the log is worth for this policy.
    mean_weight
        1 if the policy only takes actions that the logger may take, otherwise 1 minus the share of the others.
    largest_weights
        The rows with the largest weights, and these weights.
    evaluator, reason
        The recommended evaluator, and why.
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
            f"{self.mean_weight:.3f}, largest weights {rows}\nRecommended evaluator: {self.evaluator} ({self.reason})"
        )


@dataclass(frozen=True, eq=False)
class HealthReport(ContentEquality):
    """All findings about a log, how well it suits the policy if one was given, and how the log was read.

    Examples
    --------
    >>> report = HealthReport("Log(9 events, 2 actions, 1 feature)", (Finding("duplicates", "ok", 0.0, "none"),))
    >>> report.verdict, report["duplicates"].figure
    ('ok', 0.0)
    """

    about: str
    findings: tuple[Finding, ...]
    policy: PolicyFit | None = None
    reading: ReadingSummary | None = None

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all findings."""
        return worst_verdict(self.findings)

    @property
    def faults(self) -> tuple[Finding, ...]:
        """Findings that are not ok, the worst first."""
        faults = [finding for finding in self.findings if finding.verdict != "ok"]
        return tuple(sorted(faults, key=lambda finding: -VERDICTS.index(finding.verdict)))

    @property
    def passed(self) -> tuple[Finding, ...]:
        """Findings that are ok."""
        return tuple(finding for finding in self.findings if finding.verdict == "ok")

    def __getitem__(self, name: str) -> Finding:
        for finding in self.findings:
            if finding.name == name:
                return finding
        raise OptionError(f"there is no finding {name!r}; there are {', '.join(f.name for f in self.findings)}")

    def to_dict(self) -> dict[str, Any]:
        """Return the report as numbers, strings, lists and dicts for JSON; nan becomes None."""
        return {
            "log": self.about,
            "verdict": self.verdict,
            "findings": to_json(self.findings),
            "policy": to_json(self.policy),
            "reading": to_json(self.reading),
        }

    def __str__(self) -> str:
        lines = [f"{self.about}: {self.verdict}"]
        for finding in self.faults:
            lines += [f"{finding.verdict}  {finding.name}: {finding.message}", f"      {finding.remedy}"]
        if self.passed:
            lines.append(f"ok    {', '.join(finding.name for finding in self.passed)}")
        if self.reading is not None:
            lines.append(f"read  {self.reading}")
        if self.policy is not None:
            lines.append(str(self.policy))
        return "\n".join(lines)

    def to_frame(self) -> Any:
        """Return one row per finding as an Arrow table: name, verdict, figure, message, remedy."""
        from backcast.report.frames import health_frame

        return health_frame(self)


@dataclass(frozen=True)
class ContractReport(NotebookDisplay):
    """What was checked of an evaluator, an interval or a reward model; it exists only if every check passed.

    Attributes
    ----------
    name
        What was checked, as it is written in code.
    laws
        The properties that hold, one sentence each.

    Examples
    --------
    >>> print(ContractReport("Mine()", laws=("the same seed gives the same result",)))
    Mine() passed 1 check:
    - the same seed gives the same result
    """

    name: str
    laws: tuple[str, ...]

    def __str__(self) -> str:
        checks = f"{len(self.laws)} check{'' if len(self.laws) == 1 else 's'}"
        return "\n".join([f"{self.name} passed {checks}:", *(f"- {law}" for law in self.laws)])
