"""Estimate missing propensities and join the logs of several loggers."""

from backcast.propensities.estimate import PropensityDiagnostics as PropensityDiagnostics
from backcast.propensities.estimate import PropensityEstimate as PropensityEstimate
from backcast.propensities.estimate import estimate_propensities as estimate_propensities
from backcast.propensities.estimate import with_estimated_propensities as with_estimated_propensities
from backcast.propensities.mixing import mix_logs as mix_logs

__all__: list[str]
