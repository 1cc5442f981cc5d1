"""Runs shards as Ray actors and segments as Ray tasks, on any node."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, TypeVar

from trawlnet.crawlers.errors import NotReady
from trawlnet.fleet.crawlers import run_job
from trawlnet.fleet.ray_token import LOCAL, authenticated
from trawlnet.fleet.shard import ShardJob
from trawlnet.loading import load
from trawlnet.observe.logs.writer import log_to_stderr

log = logging.getLogger(__name__)


_MISSING = ("a fleet needs Ray, which is not installed", "pip install 'trawlnet[fleet]'")
J = TypeVar("J")
R = TypeVar("R")


class ProcessDied(Exception):
    """A process, or the node it was on, died before its work was done."""


class RayRuntime:
    """Starts one actor for each shard; Ray starts it again when its process or its node dies."""

    def __init__(self, ray: Any, job: ShardJob) -> None:
        self._ray = ray
        self._job = job
        # No CPU is reserved: a shard mostly waits, and the user chooses their number. Without any
        # resource Ray puts all actors on one node; a byte of memory spreads them.
        self._kind = ray.remote(
            num_cpus=0,
            memory=1,
            max_restarts=-1,
            max_task_retries=-1,
            scheduling_strategy="SPREAD",
        )(_Shard)
        self._actors: dict[int, Any] = {}
        self._ends: dict[int, Any] = {}  # The Ray reference of each run.

    def ensure(self, shard: int) -> None:
        if shard in self._ends and self._ended(shard):
            self.release(shard)
        if shard not in self._ends:
            actor = self._actors[shard] = self._kind.remote()
            self._ends[shard] = actor.run.remote(replace(self._job, shard=shard))

    def replace(self, shard: int) -> None:
        self.release(shard)
        self.ensure(shard)

    def release(self, shard: int) -> None:
        actor = self._actors.pop(shard, None)
        self._ends.pop(shard, None)
        if actor is not None:
            self._ray.kill(actor, no_restart=True)

    def _ended(self, shard: int) -> bool:
        """Raises the error that ended the shard."""
        done, _ = self._ray.wait([self._ends[shard]], timeout=0)
        if not done:
            return False
        try:
            self._ray.get(done)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self._ray.exceptions.RayActorError:
            return True  # Its node is gone: the shard is started elsewhere.
        return True


class _Shard:
    """Runs in a process of its own, perhaps on another machine."""

    def run(self, job: ShardJob) -> None:
        log_to_stderr()  # Ray writes it to a log file of this process.
        asyncio.run(run_job(job))


class RayTasks:
    """Runs functions in processes on any node, several at once."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self.cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))

    async def run(self, work: Callable[[J], R], job: J) -> R:
        """Raises ProcessDied, or what `work` raised."""
        # No retries by Ray: the caller repeats it, and knows that it may have run twice.
        task = self._ray.remote(num_cpus=1, max_retries=0, scheduling_strategy="SPREAD")(work)
        sent = task.remote(job)
        ended: asyncio.Future[R] = asyncio.wrap_future(sent.future())
        ended.add_done_callback(lambda one: one.cancelled() or one.exception())
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            self._ray.cancel(sent, force=True)
            raise
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self._ray.exceptions.RayError as error:
            raise ProcessDied(str(error).splitlines()[0]) from error


def check_installed() -> None:
    """Raises NotReady without Ray. It is imported later: Ray reads variables then."""
    if find_spec("ray") is None:
        raise NotReady(*_MISSING)


@contextmanager
def ray_runtime(address: str, job: ShardJob) -> Iterator[RayRuntime]:
    with _connected(address) as ray:
        yield RayRuntime(ray, job)


@contextmanager
def ray_tasks(address: str) -> Iterator[RayTasks]:
    with _connected(address) as ray:
        yield RayTasks(ray)


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    """Connect to a new cluster on this machine for `local`, else to the cluster at the address."""
    with authenticated(address, os.environ):  # Ray reads its variables when it is imported.
        ray = _imported()
        # Ray prints messages about dead processes and nodes to standard output in any case, where
        # they would mix with the rows for other programs.
        ray._private.worker.print_to_stdstream = _log
        _join(ray, address)
        try:
            yield ray
        finally:
            ray.shutdown()


def _join(ray: Any, address: str) -> None:
    quiet = {"log_to_driver": False, "configure_logging": False, "namespace": "trawlnet"}
    tries = _TRIES
    while True:
        try:
            if address == LOCAL:
                ray.init(address="local", include_dashboard=False, **quiet)
            else:
                ray.init(address=address, **quiet)
            return
        except Exception as error:  # Ray raises nothing less when a node does not start in time.
            ray.shutdown()
            is_slow = address == LOCAL or any(words in str(error) for words in _SLOW)
            if (tries := tries - 1) and is_slow:
                log.warning("ray retried", extra={"error": str(error)[:300]})
                continue
            raise _not_joined(address, error) from error


def _not_joined(address: str, error: Exception) -> NotReady:
    what = (str(error) or type(error).__name__).splitlines()[0]
    if address == LOCAL:
        return NotReady(f"Ray did not start on this machine: {what}", _LOCAL_HINT)
    return NotReady(f"no Ray cluster answers at {address}: {what}", _JOIN_HINT)


_TRIES = 3
# Ray's errors on a busy machine: from a node, and from the process that serves a client.
_SLOW = ("timed out during startup", "client server failed")
_LOCAL_HINT = "try again when the machine is less busy; Ray's own logs are in /tmp/ray"
_JOIN_HINT = (
    "start one: ray start --head; if it has a token, set RAY_AUTH_MODE=token here, with the same "
    "one in ~/.ray/auth_token; or try it on this machine: --fleet local"
)


def _log(message: dict[str, Any], ignore_prefix: bool = True) -> None:
    for line in message["lines"]:
        log.warning("ray says: %s", line)


def _imported() -> Any:
    try:
        return load("ray")
    except ImportError as error:  # Or what Ray itself needs is missing.
        raise NotReady(*_MISSING) from error
