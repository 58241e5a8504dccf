"""Where the work of a command is done: on this machine, or on a cluster of Dask or Ray that is named.

A cluster's workers import what they are sent: backcast, and the module of a policy of your own, must be there too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from backcast.cli.specs import near
from backcast.errors import OptionError

__all__ = ["ENGINES", "Engine"]

ENGINES = ("local", "dask", "ray")
PATIENCE = 10  # seconds for a scheduler to answer, and for its first worker to come


class Engine:
    """An engine by name, and the address of its scheduler; the name is checked at once, the address when it is used.

    >>> Engine("local").name
    'local'
    """

    def __init__(self, name: str = "local", scheduler: str | None = None) -> None:
        if name not in ENGINES:
            raise OptionError(f"there is no engine {name!r}{near(name, ENGINES)} Engines: {', '.join(ENGINES)}")
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
