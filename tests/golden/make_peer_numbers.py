"""Numbers of other packages on the inputs of ``peer_inputs``; run in an environment of the package's own.

python -m venv obp && obp/bin/pip install obp==0.5.5          (Python 3.9)
obp/bin/python -m tests.golden.make_peer_numbers obp > tests/golden/obp.json

python -m venv vw && vw/bin/pip install vw-estimators==0.2.2  (Python 3.11)
vw/bin/python -m tests.golden.make_peer_numbers vw > tests/golden/vw_estimators.json
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import numpy as np

from tests.golden.peer_inputs import Inputs, inputs

CASES = 12
THRESHOLD = 2.0
SHARE = 0.25


def of_obp(case: Inputs) -> dict[str, float]:
    from obp import ope  # type: ignore[import-not-found]  # in its own environment only

    known = {
        "reward": case.rewards,
        "action": case.actions,
        "pscore": case.propensities,
        "action_dist": case.target[:, :, None],
    }
    model = {"estimated_rewards_by_reg_model": case.predicted[:, :, None]}
    estimators = {
        "IPS": ope.InverseProbabilityWeighting(),
        "ClippedIPS": ope.InverseProbabilityWeighting(lambda_=THRESHOLD),
        "SNIPS": ope.SelfNormalizedInverseProbabilityWeighting(),
        "DR": ope.DoublyRobust(),
        "PessimisticDR": ope.DoublyRobust(lambda_=THRESHOLD),
        "SNDR": ope.SelfNormalizedDoublyRobust(),
        "SwitchDR": ope.SwitchDoublyRobust(lambda_=THRESHOLD),
        "ShrinkageDR": ope.DoublyRobustWithShrinkage(lambda_=THRESHOLD),
        "SubGaussian": ope.SubGaussianDoublyRobust(lambda_=SHARE),
        "SubGaussianIPS": ope.SubGaussianInverseProbabilityWeighting(lambda_=SHARE),
    }
    free = ("IPS", "ClippedIPS", "SNIPS", "SubGaussianIPS")
    return {
        name: float(estimator.estimate_policy_value(**known, **({} if name in free else model)))
        for name, estimator in estimators.items()
    }


def of_vw(case: Inputs) -> dict[str, Any]:
    from estimators.bandits import cressieread, gaussian, ips, snips  # type: ignore[import-not-found]  # likewise
    from estimators.math import clopper_pearson  # type: ignore[import-not-found]  # likewise

    low, high = case.reward_range
    selected = case.target[np.arange(len(case.actions)), case.actions]
    estimators = {"IPS": ips.Estimator(), "SNIPS": snips.Estimator()}
    intervals = {
        "Normal": gaussian.Interval(),
        "CressieRead": cressieread.Interval(rmin=low, rmax=high),
        "CressieRead bounded": cressieread.Interval(rmin=low, rmax=high, wmax=1000.0),
    }
    for p, r, pi in np.column_stack([case.propensities, case.rewards, selected]).tolist():
        for each in (*estimators.values(), *intervals.values()):
            each.add_example(p, r, pi)
    return {
        **{name: estimator.get() for name, estimator in estimators.items()},
        **{name: [float(end) for end in interval.get(alpha=0.1)] for name, interval in intervals.items()},
        "binomial": [float(end) for end in clopper_pearson(3.5, 17.25, 0.1)],
    }


def main(peer: str) -> None:
    """Write the peer's numbers as JSON."""
    from importlib.metadata import version

    package, numbers = {"obp": ("obp", of_obp), "vw": ("vw-estimators", of_vw)}[peer]
    origin = {
        "package": package,
        "version": version(package),
        "python": ".".join(map(str, sys.version_info[:2])),
        "command": f"python -m tests.golden.make_peer_numbers {peer}",
        "threshold": THRESHOLD,
        "share": SHARE,
    }
    cases = [numbers(inputs(case)) for case in range(CASES)]
    assert all(math.isfinite(number) for case in cases for number in np.hstack(list(case.values())))
    print(json.dumps({"origin": origin, "cases": cases}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1])
