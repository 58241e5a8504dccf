"""Simulated environments whose policy values are known."""

from backcast.environments.classification import ClassificationWorld as ClassificationWorld
from backcast.environments.classification import classification_world as classification_world
from backcast.environments.linear import LinearWorld as LinearWorld
from backcast.environments.linear import WorldValue as WorldValue
from backcast.environments.live import coin_flips as coin_flips
from backcast.environments.live import run_live as run_live

__all__: list[str]
