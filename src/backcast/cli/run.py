"""From settings to a result: the engine that does the work, the options of a run, the evaluation, and the log."""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import backcast as bc
from backcast._forecast import USUAL_PASSES, effective_jobs, evaluation_memory, worthwhile_jobs
from backcast.cli.objects import EVALUATORS, INTERVALS, POLICIES, build, build_from
from backcast.cli.progress import print_status, watch_run
from backcast.cli.settings import Settings
from backcast.errors import OptionError, ResourceError, StopEvaluation, did_you_mean
from backcast.estimate import LOGGED
from backcast.io.limits import (
    BYTES_PER_CHARACTER,
    IN_PARTS,
    VW_IN_PARTS,
    format_bytes,
    free_memory,
    without_stream_remedy,
)
from backcast.io.tables import open_log_files

VW_FORMATS = ("vw", "dsjson", "cb", "adf")
VW_OPTIONS = ("n_actions", "hash_size", "reward_range")
TABLE_OPTIONS = (
    *(*VW_OPTIONS, "action_labels", "times", "available", "logging_probabilities"),
    *("one_hot", "where", "delimiter", "encoding", "segments"),
)
MEMORY_SHARE = 0.9  # of the free memory that an evaluation may fill: other programs need some as well
NO_STREAM_REMEDY = "leave out --no-stream to read it in parts"
ENGINES = ("local", "dask", "ray")
CONNECT_SECONDS = 10  # for a scheduler to respond, and for its first worker to appear


class Engine:
    """An engine by name, and the address of its scheduler; the name is checked at once, the address on use.

    A cluster's workers import what they are sent: backcast, and the module of a user's policy, must be installed there.

    >>> Engine("local").is_local
    True
    """

    def __init__(self, name: str = "local", scheduler: str | None = None) -> None:
        if name not in ENGINES:
            raise OptionError(f"there is no engine {name!r}{did_you_mean(name, ENGINES)} Engines: {', '.join(ENGINES)}")
        if name == "local" and scheduler is not None:
            raise OptionError("scheduler is given and the engine is local; add --engine dask or --engine ray")
        if name == "dask" and scheduler is None:
            raise OptionError(
                "the engine dask needs the address of a scheduler; give it as --scheduler tcp://HOST:PORT"
            )
        if find_spec({"local": "joblib", "dask": "distributed", "ray": "ray"}[name]) is None:
            raise OptionError(f"the engine {name} is not installed; pip install 'backcast[{name}]'")
        self.name, self.scheduler = name, scheduler

    @property
    def is_local(self) -> bool:
        """Whether the work is done on this machine."""
        return self.name == "local"

    @contextmanager
    def connect(self) -> Iterator[None]:
        """Connect to the engine: inside the block, jobs run there."""
        if self.is_local:
            yield
            return
        from joblib import parallel_config

        # a command reports problems in one line; the logs of the engines would be printed beside it
        logging.getLogger("distributed" if self.name == "dask" else "ray").setLevel(logging.CRITICAL)
        connected = _connect_to_dask if self.name == "dask" else _connect_to_ray
        with connected(self.scheduler), parallel_config(backend=self.name):
            yield


@contextmanager
def _connect_to_dask(scheduler: str | None) -> Iterator[None]:
    from distributed import Client

    try:
        client: Any = Client(scheduler, timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as problem:
        raise OptionError(
            f"no Dask scheduler responds at {scheduler} ({_first_line(problem)}); is it running, and is the port right?"
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError:
            raise OptionError(
                f"the scheduler at {scheduler} has no workers; start some with 'dask worker {scheduler}'"
            ) from None
        yield


@contextmanager
def _connect_to_ray(address: str | None) -> Iterator[None]:
    import ray
    from ray.util.joblib import register_ray

    try:
        ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, OSError, ValueError, RuntimeError) as problem:
        where = "cannot be started on this machine" if address is None else f"cannot be reached at {address}"
        raise OptionError(f"Ray {where} ({_first_line(problem)}); is it running, and is the address right?") from None
    try:
        register_ray()
        yield
    finally:
        ray.shutdown()


def _first_line(problem: Exception) -> str:
    return (str(problem) or type(problem).__name__).splitlines()[0]


@dataclass(frozen=True)
class RunOptions:
    """Policies by name, an evaluator, keyword arguments of ``evaluate`` or ``compare``, and how the work is done."""

    policies: Mapping[str, Any]
    evaluator: Any = "auto"
    keywords: Mapping[str, Any] = field(default_factory=dict)
    engine: Engine = field(default_factory=Engine)
    checkpoint: Path | None = None

    def checkpoint_folder(self, name: str) -> Path | None:
        """Return the checkpoint folder of one evaluation: a subfolder of ``checkpoint``, if that is set.

        >>> RunOptions({}, checkpoint=Path("done")).checkpoint_folder("linucb:alpha=0.3")
        PosixPath('done/linucb-alpha-0.3-4d1dee85')
        """
        if self.checkpoint is None:
            return None
        # the digest distinguishes names that differ only in characters that are replaced
        readable = re.sub(r"[^A-Za-z0-9._]+", "-", name).strip(".-")[:40]
        return self.checkpoint / f"{readable}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"

    def keywords_for(self, log: bc.Log | bc.LogStream) -> dict[str, Any]:
        """Return the keyword arguments, with the number of jobs that is the default for this log."""
        jobs = self.keywords.get("n_jobs")
        # None is all of a cluster
        if jobs is None and self.engine.is_local:
            jobs = worthwhile_jobs(log, list(self.policies.values()), self.keywords.get("horizon"))
        return {**self.keywords, "n_jobs": jobs}

    def count_passes(self) -> int:
        """Return about how many times the whole log is processed, for the length of the progress bar."""
        from backcast.evaluators.clock_replay import ClockReplay
        from backcast.policies.base import is_learning

        replicates = self.keywords.get("replicates", "default")
        replicated_by_default = isinstance(self.evaluator, ClockReplay) or (
            self.evaluator == "auto"
            and self.keywords.get("horizon") is not None
            and self.keywords.get("exchangeable") is not False
            and any(is_learning(policy) for policy in self.policies.values())
        )
        if replicates is None or (replicates == "default" and not replicated_by_default):
            return 1
        return replicates if isinstance(replicates, int) else USUAL_PASSES


def read_run_options(settings: Settings, *, paired: bool) -> RunOptions:
    """Build the options of ``compare`` if paired, else of ``evaluate``; names are checked before a file is read."""
    evaluator = settings.get("evaluator", "auto")
    if evaluator != "auto":
        evaluator = build(evaluator, EVALUATORS, settings.folder)
    engine = Engine(settings.get("engine", "local"), settings.get("scheduler"))
    keywords = {
        "horizon": make_horizon(settings.get("horizon")),
        "level": settings.get("level", 0.95),
        "seed": settings.get("seed", 0),
        "n_jobs": settings.get("jobs"),
        "time_limit": settings.get("time_limit"),
        "time_budget": settings.get("time_budget", "default"),
        "exchangeable": settings.get("exchangeable"),
        "replicates": make_replicates(settings.get("replicates"), "auto" if paired else "default"),
    }
    if not paired:
        interval = settings.get("interval")
        keywords["interval"] = interval and build(interval, INTERVALS, settings.folder)
    elif keywords["replicates"] is None:
        raise OptionError("replicates is none; differences have no interval without them: give a number or auto")
    policies = make_policies(settings.require("policies", "the policy"), settings.folder)
    if paired:
        baseline = settings.get("baseline", LOGGED)
        keywords["baseline"] = None if baseline == "none" and "none" not in policies else baseline
        keywords["guardrails"] = settings.get_list("guardrails")
        if keywords["baseline"] is None and len(policies) < 2:
            raise OptionError(
                "one policy is given; a comparison without a baseline needs two: --policy a=linucb --policy b=uniform"
            )
    checkpoint = settings.get("checkpoint")
    return RunOptions(policies, evaluator, keywords, engine, None if checkpoint is None else Path(checkpoint))


def make_policies(given: Mapping[str, Any] | list[str], folder: Path | None = None) -> dict[str, Any]:
    """Build policies from the table of a run file, or from flags; a policy without a name is named by its text.

    >>> make_policies(["random=uniform", "fixed:probabilities=[0.5,0.5]"])
    {'random': Uniform(), 'fixed:probabilities=[0.5,0.5]': Fixed([0.5, 0.5])}
    >>> make_policies({"quick": {"kind": "linucb", "alpha": 0.5}})
    {'quick': LinUCB(alpha=0.5, ridge=1, batch_size=1)}
    """
    policies: dict[str, Any] = {}
    for name, policy in given.items() if isinstance(given, Mapping) else map(_split_name, given):
        if name in policies:
            raise OptionError(f"the policy {name!r} is given twice; name each differently, as name=policy")
        if isinstance(policy, str):
            policies[name] = build(policy, POLICIES, folder)
        elif isinstance(policy.get("kind"), str):
            options = {key: value for key, value in policy.items() if key != "kind"}
            policies[name] = build_from(policy["kind"], options, POLICIES, folder)
        else:
            raise OptionError(f'the policy {name!r} has no kind; write {name} = {{ kind = "linucb", alpha = 0.3 }}')
    return policies


def _split_name(text: str) -> tuple[str, str]:
    # an equals sign after a colon belongs to an option of the policy
    named = re.fullmatch(r"\s*([^:=]*[^:=\s])\s*=(.*)", text)
    return (named[1], named[2]) if named else (text, text)


def make_horizon(given: str | int | None) -> int | str | None:
    """Return a number of rounds as a number, and a span of time as text.

    >>> make_horizon("60"), make_horizon("1d"), make_horizon(None)
    (60, '1d', None)
    """
    return int(given) if isinstance(given, str) and given.isdecimal() else given


def make_replicates(given: str | int | None, default: str) -> int | str | None:
    """Return the number of replicates, "auto", or None for none.

    >>> make_replicates("60", "default"), make_replicates("none", "default"), make_replicates(None, "default")
    (60, None, 'default')
    """
    words: dict[Any, str | None] = {None: default, "auto": "auto", "none": None}
    if given in words:
        return words[given]
    if not str(given).isdecimal():
        raise OptionError(f"replicates is {given!r}; give a number, auto or none")
    return int(cast(str, given))


def run_evaluations(log: bc.Log | bc.LogStream, options: RunOptions, *, quiet: bool) -> dict[str, bc.Estimate]:
    """Evaluate each policy, with a progress bar; after Ctrl-C, return the estimates so far."""
    estimates: dict[str, bc.Estimate] = {}
    passes = options.count_passes() if isinstance(log, bc.Log) else 1
    with options.engine.connect(), watch_run((log.n_events or 0) * passes, len(options.policies), quiet=quiet) as run:
        for name, policy in options.policies.items():
            try:
                run.start_task(name)
                estimates[name] = bc.evaluate(
                    log,
                    policy,
                    options.evaluator,
                    progress=run,
                    checkpoint=options.checkpoint_folder(name),
                    **options.keywords_for(log),
                )
            except StopEvaluation:
                break
    return estimates


def run_comparison(log: bc.Log | bc.LogStream, options: RunOptions, *, quiet: bool) -> bc.Comparison:
    """Compare the policies, with a progress bar."""
    # parts of a stream are processed once for all policies, or once for each: the bar is as long as the latter
    passes = options.count_passes() if isinstance(log, bc.Log) else len(options.policies)
    with options.engine.connect(), watch_run((log.n_events or 0) * passes, 1, quiet=quiet) as run:
        run.start_task(f"{len(options.policies)} policies")
        return bc.compare(
            log,
            options.policies,
            options.evaluator,
            progress=run,
            checkpoint=options.checkpoint_folder("comparison"),
            **options.keywords_for(log),
        )


def open_log(settings: Settings) -> bc.Log | bc.LogStream:
    """Open the log of the settings: in memory, or as a stream if that is set or the log is large for the memory."""
    path, as_stream = settings.require("log", "the log"), settings.get("stream")
    if _is_vw_log(settings, path):
        return _open_vw_log(settings, path)
    if settings.get("estimate_propensities"):
        if as_stream:
            raise OptionError("stream is set, but logs whose propensities are estimated are read whole; leave it out")
        try:
            return bc.read_log(path, **_column_arguments(settings))
        except ResourceError as problem:
            # these logs cannot be read in parts
            raise ResourceError(str(problem).replace(IN_PARTS, "read fewer files")) from None
    with without_stream_remedy():
        stream = open_log_files(path, **_column_arguments(settings))
    reason = "" if as_stream is not None else _why_stream(stream, effective_jobs(settings.get("jobs", -1)))
    if not (as_stream or reason):
        try:
            return stream.read()
        except (ResourceError, MemoryError) as problem:
            if as_stream is not None:
                text = str(problem) if isinstance(problem, ResourceError) else f"memory ran out; {IN_PARTS}"
                raise ResourceError(text.replace(IN_PARTS, NO_STREAM_REMEDY)) from None
            reason = "the log does not fit in memory"
    if reason and not settings.silent:
        print_status(f"{reason}; it is read in parts (--no-stream reads it whole)")
    with without_stream_remedy():
        return stream.in_time_order().with_event_count()


def _open_vw_log(settings: Settings, path: str) -> bc.Log | bc.LogStream:
    """Read a log of Vowpal Wabbit: in memory, or in parts if that is set or its text is large for the memory."""
    from backcast.io._vw_files import find_vw_files

    as_stream = settings.get("stream")
    file_format = None if settings.get("format") == "vw" else settings.get("format")
    pairs = settings.get_list("interactions")
    named: dict[Any, Any] = {(): "auto", ("auto",): "auto", ("none",): None}
    options = {"format": file_format, "interactions": named.get(tuple(pairs), pairs)}
    options |= _select_arguments(settings, *VW_OPTIONS)
    reason = ""
    if as_stream is None:
        size, free = sum(os.path.getsize(file) for file in find_vw_files(path)), free_memory()
        if free is not None and BYTES_PER_CHARACTER * size > MEMORY_SHARE * free:
            reason = f"the log has {format_bytes(size)} of text, and {format_bytes(free)} of memory are free"
    if not (as_stream or reason):
        try:
            return bc.read_vw(path, **options)
        except (ResourceError, MemoryError) as problem:
            if as_stream is not None:
                text = str(problem) if isinstance(problem, ResourceError) else f"memory ran out; {VW_IN_PARTS}"
                raise ResourceError(text.replace(VW_IN_PARTS, NO_STREAM_REMEDY)) from None
            reason = "the log does not fit in memory"
    if reason and not settings.silent:
        print_status(f"{reason}; it is read in parts (--no-stream reads it whole)")
    return bc.scan_vw(path, **options)


def _why_stream(stream: bc.LogStream, n_jobs: int) -> str:
    """Return the reason to read a log in parts: what an evaluation will hold is more than is free. Empty if it fits."""
    free = free_memory()
    log_bytes, other = stream.bytes_in_memory, evaluation_memory(stream, n_jobs)
    if free is None or log_bytes + other <= MEMORY_SHARE * free:
        return ""
    return (
        f"the log needs {format_bytes(log_bytes)} of memory and its evaluation {format_bytes(other)}, and "
        f"{format_bytes(free)} are free"
    )


def _is_vw_log(settings: Settings, path: str) -> bool:
    from backcast.io._vw_files import looks_like_vw

    file_format = settings.get("format")
    if not (file_format in VW_FORMATS or (file_format is None and looks_like_vw(path))):
        return False
    for key in ("context", "action", "reward", "propensity", "outcomes", "segments"):
        if settings.get(key) is not None:
            raise OptionError(f"{key} is given, but logs of Vowpal Wabbit have no columns; leave it out")
    return True


def _column_arguments(settings: Settings) -> dict[str, Any]:
    """Return the arguments of ``read_log`` and ``scan_log``."""
    return {
        "context": settings.get_list("context"),
        "action": settings.require("action", "the column of the action (or --format vw for a log of Vowpal Wabbit)"),
        "reward": settings.require("reward", "the column of the reward"),
        "propensity": _propensity_argument(settings),
        "format": settings.get("format"),
        "fill": _fill_argument(settings.get("fill")),
        **_outcomes_argument(settings.get("outcomes")),
        **_select_arguments(settings, *TABLE_OPTIONS),
    }


def _outcomes_argument(given: Any) -> dict[str, Any]:
    """Return the columns of further outcomes by name.

    >>> _outcomes_argument(["latency=ms", "clicks"]), _outcomes_argument(None)
    ({'outcomes': {'latency': 'ms', 'clicks': 'clicks'}}, {})
    """
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {"outcomes": dict(given)}
    pairs = [entry.partition("=") for entry in ([given] if isinstance(given, str) else given)]
    return {"outcomes": {name.strip(): (column or name).strip() for name, _, column in pairs}}


def _fill_argument(given: Any) -> Any:
    """Return what missing values are filled with: one value, or one per column.

    >>> _fill_argument(["age=mean", "f_*=0"]), _fill_argument(["zero"])
    ({'age': 'mean', 'f_*': 0.0}, 'zero')
    """
    if not isinstance(given, list):
        return given
    pairs = [entry.rpartition("=")[::2] for entry in given]
    values = {name: _number_or_text(value) for name, value in pairs}
    if "" not in values:
        return values
    if len(pairs) > 1:
        raise OptionError(f"fill is {' and '.join(given)}; give one value for all columns, or a column for each value")
    return values[""]


def _number_or_text(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _propensity_argument(settings: Settings) -> str | float | None:
    """Return a column, a constant for all events, or None to estimate."""
    if settings.get("estimate_propensities"):
        return None
    given = settings.require("propensity", "the column of the propensity (or --estimate-propensities)")
    return given if isinstance(given, int | float) else _number_or_text(given)


def _select_arguments(settings: Settings, *keys: str) -> dict[str, Any]:
    """Return the settings of these keys that are set, a range as a tuple."""
    values = {key: settings.get(key) for key in keys if settings.get(key) is not None}
    return {key: tuple(value) if key == "reward_range" else value for key, value in values.items()}


def describe_log(log: bc.Log | bc.LogStream, source: str) -> dict[str, Any]:
    """Return what tables and reports show about a log."""
    return {
        "log": source,
        "events": log.n_events or 0,
        "actions": log.n_actions,
        "features": log.n_features,
        "average reward in the log": float(log.rewards.mean()) if isinstance(log, bc.Log) else log.average_reward(),
    }
