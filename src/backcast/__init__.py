"""What would this policy have earned?

backcast replays a log of (context, action, reward, propensity) through a policy that may learn as it goes, and
estimates what the policy would have earned live: a value, a valid interval, and diagnostics of its reliability.

Names are loaded when they are first used, so that ``import backcast`` is quick.
"""

from backcast._lazy_imports import lazy_names

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
