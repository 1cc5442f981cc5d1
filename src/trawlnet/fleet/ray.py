"""Shards as Ray actors: restarted without limit, on whatever node there is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from trawlnet.crawlers.errors import NotReady
from trawlnet.fleet.shard import ShardJob

LOCAL = "local"


class RayRuntime:
    """Starts one actor for each shard; Ray starts it again when its process or its node dies."""

    def __init__(self, ray: Any, job: ShardJob) -> None:
        self._ray = ray
        self._job = job
        # No CPU is reserved: a shard mostly waits, and how many there are is for people to say.
        self._kind = ray.remote(
            num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy="SPREAD"
        )(_Shard)
        self._actors: dict[int, Any] = {}
        self._ends: dict[int, Any] = {}  # What becomes of each run.

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
        """Raises what made it give up."""
        done, _ = self._ray.wait([self._ends[shard]], timeout=0)
        if not done:
            return False
        try:
            self._ray.get(done)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self._ray.exceptions.RayActorError:
            return True  # Its node went away for good: it is started again elsewhere.
        return True


class _Shard:
    """Runs in a process of its own, perhaps on another machine."""

    def run(self, job: ShardJob) -> None:
        from trawlnet.fleet.crawlers import run_job

        asyncio.run(run_job(job))


@contextmanager
def ray_runtime(address: str, job: ShardJob) -> Iterator[RayRuntime]:
    """On this machine alone for `local`, else on the cluster of that address."""
    ray = _imported()
    quiet = {"log_to_driver": False, "configure_logging": False, "namespace": "trawlnet"}
    try:
        if address == LOCAL:
            ray.init(address="local", include_dashboard=False, **quiet)
        else:
            ray.init(address=address, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise NotReady(
            f"no Ray cluster answers at {address}: {str(error).splitlines()[0]}",
            "start one: ray start --head; or try it on this machine: --fleet local",
        ) from error
    try:
        yield RayRuntime(ray, job)
    finally:
        ray.shutdown()


def _imported() -> Any:
    try:
        import ray
    except ImportError as error:
        raise NotReady(
            "a fleet needs Ray, which is not installed", "pip install 'trawlnet[fleet]'"
        ) from error
    return ray
