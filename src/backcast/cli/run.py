"""Where the work of a command is done: on this machine, or on a cluster of Dask or Ray that is named.

A cluster's workers import what they are sent: backcast, and the module of a policy of your own, must be there too.
"""

from __future__ import annotations

import hashlib
import logging
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from backcast.cli.objects import EVALUATORS, INTERVALS, POLICIES, build, build_from
from backcast.cli.progress import Bar, Stop, print_status, progress_bar, stopping
from backcast.cli.settings import Settings
from backcast.errors import OptionError, did_you_mean
from backcast.io.limits import free_memory

if TYPE_CHECKING:
    from backcast.comparison import Comparison
    from backcast.estimate import Estimate
    from backcast.io.stream import LogStream
    from backcast.log import Log


ENGINES = ("local", "dask", "ray")


PATIENCE = 10  # seconds for a scheduler to answer, and for its first worker to come


class Engine:
    """An engine by name, and the address of its scheduler; the name is checked at once, the address when it is used.

    >>> Engine("local").name
    'local'
    """

    def __init__(self, name: str = "local", scheduler: str | None = None) -> None:
        if name not in ENGINES:
            raise OptionError(f"there is no engine {name!r}{did_you_mean(name, ENGINES)} Engines: {', '.join(ENGINES)}")
        if name == "local" and scheduler is not None:
            raise OptionError("scheduler is given and the engine is local; say --engine dask or --engine ray")
        if name == "dask" and scheduler is None:
            raise OptionError(
                "the engine dask needs the address of a scheduler; give it as --scheduler tcp://HOST:PORT"
            )
        _need({"local": "joblib", "dask": "distributed", "ray": "ray"}[name], name)
        self.name, self.scheduler = name, scheduler

    @property
    def is_local(self) -> bool:
        """Whether the work stays on this machine."""
        return self.name == "local"

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Connected with the engine: inside the block, work goes there."""
        from joblib import parallel_config

        if self.is_local:
            yield
            return
        with _dask(self.scheduler) if self.name == "dask" else _ray(self.scheduler), parallel_config(backend=self.name):
            yield


def _need(module: str, extra: str) -> None:
    if find_spec(module) is None:
        raise OptionError(f"the engine {extra} is not installed; pip install 'backcast[{extra}]'")


@contextmanager
def _dask(scheduler: str | None) -> Iterator[None]:
    from distributed import Client

    _quiet("distributed")
    try:
        client: Any = Client(scheduler, timeout=PATIENCE)
    except (OSError, ValueError) as problem:
        reason = (str(problem) or type(problem).__name__).splitlines()[0]
        raise OptionError(
            f"no scheduler of Dask answers at {scheduler} ({reason}); is it running, and is the port right?"
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise OptionError(
                f"the scheduler at {scheduler} has no workers; start some with 'dask worker {scheduler}'"
            ) from None
        yield


@contextmanager
def _ray(address: str | None) -> Iterator[None]:
    import ray
    from ray.util.joblib import register_ray

    _quiet("ray")
    try:
        ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, OSError, ValueError, RuntimeError) as problem:
        where = "on this machine" if address is None else f"at {address}"
        reason = (str(problem) or type(problem).__name__).splitlines()[0]
        raise OptionError(f"no Ray could be had {where} ({reason}); is it running, and is the address right?") from None
    try:
        register_ray()
        yield
    finally:
        ray.shutdown()


def _quiet(name: str) -> None:
    """Engines talk of themselves in logs; a command has one line for what goes wrong."""
    logging.getLogger(name).setLevel(logging.CRITICAL)


# what replicates come to, for a bar: passes over all events, and subsets of a quarter of them
WHOLE_PASSES, USUAL_REPLICATES = 16, 300


VW_FORMATS = ("vw", "dsjson", "cb", "adf")


def read_log_of(settings: Settings) -> Log:
    """The log that the settings name, checked."""
    import backcast as bc

    path = settings.need("log", "the log")
    if is_vw(settings, path):
        kind = settings.get("format")
        options = _given(settings, "n_actions", "hash_size", "reward_range")
        return bc.read_vw(path, format=None if kind == "vw" else kind, **options)
    return bc.read_log(path, **columns_of(settings))


def columns_of(settings: Settings) -> dict[str, Any]:
    """Which column plays which part, as ``read_log`` and ``scan_log`` take it."""
    taken = ("n_actions", "action_labels", "hash_size", "times", "available", "logging_probabilities", "reward_range")
    return {
        "context": settings.several("context"),
        "action": settings.need("action", "the column of the action"),
        "reward": settings.need("reward", "the column of the reward"),
        "propensity": _propensity(settings),
        "format": settings.get("format"),
        **_given(settings, *taken),
    }


def _given(settings: Settings, *keys: str) -> dict[str, Any]:
    """Those of the settings that were set, a range as a pair."""
    given = {key: settings.get(key) for key in keys if settings.get(key) is not None}
    return given | ({"reward_range": tuple(given["reward_range"])} if "reward_range" in given else {})


def is_vw(settings: Settings, path: str) -> bool:
    """Whether the log is one of Vowpal Wabbit, which names no columns."""
    from backcast.io.vw import looks_like_vw

    given = settings.get("format")
    if not (given in VW_FORMATS or (given is None and looks_like_vw(path))):
        return False
    for key in ("context", "action", "reward", "propensity"):
        if settings.get(key) is not None:
            raise OptionError(f"{key} is given and logs of Vowpal Wabbit have no columns; leave it out")
    return True


def _propensity(settings: Settings) -> str | float | None:
    """A column, a number that holds for all events, or None to estimate."""
    if settings.get("estimate_propensities"):
        return None
    given = settings.need("propensity", "the column of the propensity (or --estimate-propensities)")
    try:
        return float(given)
    except ValueError:
        return str(given)


@dataclass(frozen=True)
class RunOptions:
    """How policies are to be evaluated: an evaluator, and the options of ``evaluate`` or ``compare``."""

    evaluator: Any = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    engine: Engine = field(default_factory=Engine)
    checkpoint: Path | None = None

    def kept(self, name: str) -> Path | None:
        """Where finished work under this name is kept: a folder of its own in the checkpoint's.

        >>> RunOptions(checkpoint=Path("kept")).kept("linucb:alpha=0.3")
        PosixPath('kept/linucb-alpha-0.3-4d1dee85')
        """
        if self.checkpoint is None:
            return None
        # names that differ in signs alone are told apart by the digest
        plain = re.sub(r"[^A-Za-z0-9._]+", "-", name).strip(".-")[:40]
        return self.checkpoint / f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"

    def passes(self, policies: Iterable[Any]) -> int:
        """How many times the log is gone through, about, for a progress bar."""
        from backcast.evaluators.clock_replay import ClockReplay
        from backcast.policies.base import is_learning

        replicates = self.options.get("replicates", "default")
        by_default = isinstance(self.evaluator, ClockReplay) or (
            self.evaluator == "auto"
            and self.options.get("horizon") is not None
            and self.options.get("exchangeable") is not False
            and any(is_learning(policy) for policy in policies)
        )
        if replicates is None or (replicates == "default" and not by_default):
            return 1
        return WHOLE_PASSES + (replicates if isinstance(replicates, int) else USUAL_REPLICATES) // 4


def asked_from(settings: Settings, *, paired: bool) -> RunOptions:
    """What the settings ask of ``evaluate``, or of ``compare`` if paired; words are checked before a file is read."""
    text = settings.get("evaluator", "auto")
    evaluator = text if text == "auto" else build(text, EVALUATORS, settings.folder)
    engine = Engine(settings.get("engine", "local"), settings.get("scheduler"))
    folder = settings.get("checkpoint")
    work: dict[str, Any] = {"engine": engine, "checkpoint": None if folder is None else Path(folder)}
    options = {
        "horizon": settings.get("horizon"),
        "level": settings.get("level", 0.95),
        "seed": settings.get("seed", 0),
        # a cluster is asked for whole; on this machine others work too, so one core is taken unless more are asked for
        "n_jobs": settings.get("jobs", 1 if engine.is_local else None),
        "time_limit": settings.get("time_limit"),
        "exchangeable": settings.get("exchangeable"),
        "replicates": make_replicates(settings.get("replicates"), "auto" if paired else "default"),
    }
    if not paired:
        words = settings.get("interval")
        return RunOptions(
            evaluator, {**options, "interval": words and build(words, INTERVALS, settings.folder)}, **work
        )
    if options["replicates"] is None:
        raise OptionError("replicates is none; differences have no interval without them: give a number or auto")
    return RunOptions(evaluator, options, **work)


def policies_from(settings: Settings, least: int = 1) -> dict[str, Any]:
    """The policies by name, as many as are needed."""
    given = settings.need("policies", "the policy")
    policies = make_policies(given, settings.folder)
    if len(policies) < least:
        raise OptionError("one policy is given; a comparison needs two: --policy a=linucb --policy b=uniform")
    return policies


def make_policies(given: Mapping[str, Any] | list[str], folder: Path | None = None) -> dict[str, Any]:
    """Policies by the names they were given, else by the words they were asked for in.

    >>> make_policies(["random=uniform", "fixed:probabilities=[0.5,0.5]"])
    {'random': Uniform(), 'fixed:probabilities=[0.5,0.5]': Fixed([0.5, 0.5])}
    >>> make_policies({"quick": {"kind": "linucb", "alpha": 0.5}})
    {'quick': LinUCB(alpha=0.5, ridge=1, batch_size=1)}
    """
    policies: dict[str, Any] = {}
    for name, words in given.items() if isinstance(given, Mapping) else map(_named, given):
        if name in policies:
            raise OptionError(f"the policy {name!r} is given twice; results are told apart by these words")
        policies[name] = build(words, POLICIES, folder) if isinstance(words, str) else _from_table(name, words, folder)
    return policies


def _named(text: str) -> tuple[str, str]:
    # a sign of equality after a colon belongs to an option
    named = re.fullmatch(r"\s*([^:=]*[^:=\s])\s*=(.*)", text)
    return (named[1], named[2]) if named else (text, text)


def _from_table(name: str, table: Mapping[str, Any], folder: Path | None) -> Any:
    options = {key: value for key, value in table.items() if key != "kind"}
    kind = table.get("kind")
    if not isinstance(kind, str):
        raise OptionError(f'the policy {name!r} has no kind; write {name} = {{ kind = "linucb", alpha = 0.3 }}')
    return build_from(kind, options, POLICIES, folder)


def make_replicates(given: str | int | None, default: str) -> int | str | None:
    """The number of replicates, "auto", or None for none.

    >>> make_replicates("60", "default"), make_replicates("none", "default"), make_replicates(None, "default")
    (60, None, 'default')
    """
    words: dict[Any, str | None] = {None: default, "auto": "auto", "none": None}
    if given in words:
        return words[given]
    if not str(given).isdecimal():
        raise OptionError(f"replicates is {given!r}; give a number, auto or none")
    return int(cast(str, given))


def run_evaluations(
    log: Log | LogStream, policies: Mapping[str, Any], asked: RunOptions, *, quiet: bool
) -> dict[str, Estimate]:
    """An estimate for each policy, with a progress bar; of those that were begun, where somebody has enough."""
    import backcast as bc

    estimates: dict[str, Estimate] = {}
    passes = asked.passes(policies.values()) if _in_memory(log) else 1
    with asked.engine.at_work(), _watched(log, passes, len(policies), quiet=quiet) as (bar, stop):
        for name, policy in policies.items():
            bar.begin(name)
            try:
                stop.check()
                watched: dict[str, Any] = {"progress": _telling(bar, stop), "checkpoint": asked.kept(name)}
                estimates[name] = bc.evaluate(log, policy, asked.evaluator, **watched, **asked.options)
            except bc.StopEvaluation:
                break
    return estimates


def run_comparison(log: Log | LogStream, policies: Mapping[str, Any], asked: RunOptions, *, quiet: bool) -> Comparison:
    """The policies compared, with a progress bar."""
    import backcast as bc

    # parts of a stream are gone through once for all policies, or once for each
    passes = asked.passes(policies.values()) if _in_memory(log) else len(policies)
    with asked.engine.at_work(), _watched(log, passes, 1, quiet=quiet) as (bar, stop):
        bar.begin(f"{len(policies)} policies")
        watched: dict[str, Any] = {"progress": _telling(bar, stop), "checkpoint": asked.kept("comparison")}
        return bc.compare(log, policies, asked.evaluator, **watched, **asked.options)


def _telling(bar: Bar, stop: Stop) -> Callable[[int], None]:
    """A function to tell of events done: the bar moves on, unless somebody has had enough."""

    def tell(events: int) -> None:
        bar.advance(events)
        stop.check()

    return tell


@contextmanager
def _watched(log: Log | LogStream, passes: int, tasks: int, *, quiet: bool) -> Iterator[tuple[Bar, Stop]]:
    """A progress bar, an ear for Ctrl-C, and warnings of drift as single lines, each once."""
    with (
        stopping(quiet=quiet) as stop,
        progress_bar(_events(log) * passes, tasks, quiet=quiet) as bar,
        warnings_in_one_line(),
    ):
        yield bar, stop


@contextmanager
def warnings_in_one_line() -> Iterator[None]:
    """Warnings of drift as single lines in the words of the command line, each once; others as they are."""
    from backcast._auto import DriftWarning

    told: set[str] = set()
    as_ever: Any = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
        if not issubclass(category, DriftWarning):
            as_ever(message, category, *rest)
        elif str(message) not in told:
            told.add(str(message))
            print_status(f"warning: {str(message).replace('exchangeable=True', '--exchangeable')}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", DriftWarning)
        # put back at the end with the filters
        warnings.showwarning = cast(Any, show)
        yield


def facts_about(log: Log | LogStream, source: str) -> dict[str, Any]:
    """What the log is, for the top of a table and the end of a report."""
    from backcast.log import Log

    return {
        "log": source,
        "events": _events(log),
        "actions": log.n_actions,
        "features": log.n_features,
        "average reward in the log": float(log.rewards.mean()) if isinstance(log, Log) else log.average_reward(),
    }


def _in_memory(log: Log | LogStream) -> bool:
    from backcast.log import Log

    return isinstance(log, Log)


def _events(log: Log | LogStream) -> int:
    from backcast.log import Log

    return len(log) if isinstance(log, Log) else log.n_rows or 0


COMFORT = 0.5  # of the free memory: an evaluation needs some beside the log


def log_or_stream_of(settings: Settings, *, quiet: bool) -> Log | LogStream:
    """The log that the settings name, checked: in memory, or as a stream of parts."""
    wanted = settings.get("stream")
    if _needs_memory(settings):
        if wanted:
            raise OptionError(
                "stream is set, and logs of Vowpal Wabbit and logs whose propensities are estimated are read whole; "
                "leave it out"
            )
        return read_log_of(settings)
    stream, free = _scanned(settings), free_memory()
    if wanted or (wanted is None and not _fits(stream, free)):
        if not wanted and not quiet:
            print_status(f"{_sizes(stream, free)}; it is read in parts (--no-stream reads it whole)")
        return stream.counted()
    return stream.read()


def _needs_memory(settings: Settings) -> bool:
    return is_vw(settings, settings.need("log", "the log")) or bool(settings.get("estimate_propensities"))


def _scanned(settings: Settings) -> LogStream:
    import backcast as bc

    return bc.scan_log(settings.need("log", "the log"), **columns_of(settings))


def _fits(stream: LogStream, free: int | None) -> bool:
    return free is None or stream.bytes_in_memory <= COMFORT * free


def _sizes(stream: LogStream, free: int | None) -> str:
    return f"the log would take {_gigabytes(stream.bytes_in_memory)} of memory and {_gigabytes(free or 0)} are free"


def _gigabytes(size: int) -> str:
    """A size in words.

    >>> _gigabytes(2_500_000_000), _gigabytes(12_345_678)
    ('2.5 GB', '12 MB')
    """
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"
