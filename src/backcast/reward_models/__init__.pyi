"""Reward models, and wrappers that keep their predictions out of sample."""

from backcast.reward_models.cross_fitting import CrossFit as CrossFit
from backcast.reward_models.cross_fitting import Fitted as Fitted
from backcast.reward_models.cross_fitting import OutOfSampleModel as OutOfSampleModel
from backcast.reward_models.cross_fitting import OutOfSamplePredictions as OutOfSamplePredictions
from backcast.reward_models.cross_fitting import Progressive as Progressive
from backcast.reward_models.cross_fitting import Split as Split
from backcast.reward_models.low_variance import LowVariance as LowVariance
from backcast.reward_models.regression import Constant as Constant
from backcast.reward_models.regression import Joint as Joint
from backcast.reward_models.regression import PerAction as PerAction
from backcast.reward_models.regression import RewardModel as RewardModel

__all__: list[str]
