"""Confidence intervals for fixed and for learning policies."""

from backcast.intervals._sample import EventColumns as EventColumns
from backcast.intervals._sample import IntervalMethod as IntervalMethod
from backcast.intervals._sample import Moments as Moments
from backcast.intervals._sample import WeightedSample as WeightedSample
from backcast.intervals._sample import sample_from_values as sample_from_values
from backcast.intervals.asymptotic import AdjustedStudent as AdjustedStudent
from backcast.intervals.asymptotic import CressieRead as CressieRead
from backcast.intervals.asymptotic import Normal as Normal
from backcast.intervals.asymptotic import Student as Student
from backcast.intervals.betting import Betting as Betting
from backcast.intervals.bootstrap import BCa as BCa
from backcast.intervals.bootstrap import Bootstrap as Bootstrap
from backcast.intervals.concentration import ClopperPearson as ClopperPearson
from backcast.intervals.concentration import EmpiricalBernstein as EmpiricalBernstein
from backcast.intervals.concentration import Hoeffding as Hoeffding
from backcast.intervals.learning import Anytime as Anytime
from backcast.intervals.learning import GroupJackknife as GroupJackknife
from backcast.intervals.learning import InfinitesimalJackknife as InfinitesimalJackknife
from backcast.intervals.learning import ResultInterval as ResultInterval
from backcast.intervals.learning import Segments as Segments
from backcast.intervals.learning import TheoremTwo as TheoremTwo

__all__: list[str]
