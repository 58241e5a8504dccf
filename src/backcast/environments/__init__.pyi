"""Simulated environments whose policy values are known."""

from backcast.environments.classification import ClassificationEnvironment as ClassificationEnvironment
from backcast.environments.classification import classification_environment as classification_environment
from backcast.environments.linear import EnvironmentValue as EnvironmentValue
from backcast.environments.linear import LinearEnvironment as LinearEnvironment
from backcast.environments.live import coin_flips as coin_flips
from backcast.environments.live import run_live as run_live

__all__: list[str]
