"""Evaluators of fixed and of learning policies."""

from backcast._request import EvaluationRequest as EvaluationRequest
from backcast._request import Evaluator as Evaluator
from backcast.evaluators._pass_inputs import PassInputs as PassInputs
from backcast.evaluators._passes import PassResult as PassResult
from backcast.evaluators._reward_predictions import out_of_sample_predictions as out_of_sample_predictions
from backcast.evaluators.acceptance import Budget as Budget
from backcast.evaluators.acceptance import Quantile as Quantile
from backcast.evaluators.acceptance import WorstCase as WorstCase
from backcast.evaluators.adaptive_loggers import CADR as CADR
from backcast.evaluators.adaptive_loggers import StableVar as StableVar
from backcast.evaluators.clock_replay import ClockReplay as ClockReplay
from backcast.evaluators.direct import DM as DM
from backcast.evaluators.doubly_robust import CAB as CAB
from backcast.evaluators.doubly_robust import DR as DR
from backcast.evaluators.doubly_robust import MRDR as MRDR
from backcast.evaluators.doubly_robust import SNDR as SNDR
from backcast.evaluators.doubly_robust import PessimisticDR as PessimisticDR
from backcast.evaluators.doubly_robust import ShrinkageDR as ShrinkageDR
from backcast.evaluators.doubly_robust import SubGaussian as SubGaussian
from backcast.evaluators.doubly_robust import SwitchDR as SwitchDR
from backcast.evaluators.drns import WC as WC
from backcast.evaluators.drns import DRns as DRns
from backcast.evaluators.importance_weighting import IPS as IPS
from backcast.evaluators.importance_weighting import SNIPS as SNIPS
from backcast.evaluators.importance_weighting import BaselineIPS as BaselineIPS
from backcast.evaluators.importance_weighting import ClippedIPS as ClippedIPS
from backcast.evaluators.passes import PassEvaluator as PassEvaluator
from backcast.evaluators.passes import PolicyRun as PolicyRun
from backcast.evaluators.rejection import RS as RS
from backcast.evaluators.rejection import Replay as Replay
from backcast.evaluators.reward_distribution import CVaR as CVaR
from backcast.evaluators.reward_distribution import RewardDistribution as RewardDistribution
from backcast.evaluators.reward_distribution import RewardQuantile as RewardQuantile

__all__: list[str]
