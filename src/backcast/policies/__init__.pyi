"""Policies: fixed, learning, and adapters for models of the user."""

from backcast.policies.base import LearningPolicy as LearningPolicy
from backcast.policies.base import Policy as Policy
from backcast.policies.classifier import FromClassifier as FromClassifier
from backcast.policies.compiled import Compiled as Compiled
from backcast.policies.context_free import UCB1 as UCB1
from backcast.policies.context_free import RoundRobin as RoundRobin
from backcast.policies.fixed import Fixed as Fixed
from backcast.policies.fixed import FromScores as FromScores
from backcast.policies.fixed import Logged as Logged
from backcast.policies.fixed import Uniform as Uniform
from backcast.policies.linear import EpsilonGreedy as EpsilonGreedy
from backcast.policies.linear import LinearThompson as LinearThompson
from backcast.policies.linear import LinUCB as LinUCB
from backcast.policies.linear import Softmax as Softmax
from backcast.policies.wrappers import Delayed as Delayed
from backcast.policies.wrappers import WarmStart as WarmStart

__all__: list[str]
