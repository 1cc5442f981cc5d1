"""The store on a Redis server, for several processes: every change is one Lua script."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from redis.asyncio import Redis

from trawlnet.engine.outcome import Again, Reason, Receipt
from trawlnet.engine.ports import Counts, Failure, LaneWork, Lease, Page, Store
from trawlnet.engine.task import Task
from trawlnet.stores.errors import StoreError
from trawlnet.stores.fence import CounterDelta, Fence
from trawlnet.stores.packing import text_bytes
from trawlnet.stores.redis.scripts import SCAN_COUNT, Scripts, connect
from trawlnet.stores.redis.work.rows import (
    by_reason,
    failure_of,
    key_of,
    packed_receipt,
    packed_task,
    task_of,
)

T = TypeVar("T")

FORMAT: Final = b"trawlnet store 1"
_SCRIPTS: Final = (
    "counts",
    "cursor",
    "feed",
    "hold",
    "holds",
    "lanes",
    "lease",
    "release",
    "renew",
    "reopen_blocked",
    "reopen_failed",
    "reside",
    "rows",
    "settle",
    "vacate",
)

_KEYS_AT_ONCE: Final = 2_000  # Keys of one script, so that none blocks other clients for long.
_QUEUES: Final = ("ready", "later", "leases")


class RedisStore:
    """Made by `await RedisStore.open(url)`. A page or a batch larger than `_KEYS_AT_ONCE` is
    written in parts: the cursor with the last one, and a receipt is never split. The server's
    settings (`appendonly`, `appendfsync`) determine what "durable" means."""

    def __init__(
        self, client: Redis, url: str, prefix: str, remember_done: bool, fence: Fence | None
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._remember_done = remember_done
        self._fence = fence or Fence()
        self._scripts = Scripts(client, url, prefix, _SCRIPTS, self._fence.token)
        self._owner = ""
        self._writer = ""
        self._sequence = 0
        self._leases = 0
        self._erased = False
        # Writes are numbered, and the server skips numbers it has seen, so they run one by one. So
        # do leases, of which the server remembers the last one.
        self._writing = asyncio.Lock()
        self._leasing = asyncio.Lock()

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        owner: str | None = None,
        prefix: str = "crawler:",
        remember_done: bool = True,
        fence: Fence | None = None,
    ) -> RedisStore:
        """`owner` names the process across restarts: the leases of a crashed predecessor of that
        name end at once. Without a name the store waits until those leases expire. With a `fence`
        the process is one of many shards, and raises Fenced when it was replaced."""
        client = connect(url)
        store = cls(client, url, prefix, remember_done, fence)
        try:
            await store._begin(owner)
        except StoreError:
            await client.aclose()
            raise
        return store

    async def cursor(self) -> str | None:
        saved: bytes | None = await self._scripts.run("cursor")
        return None if saved is None else saved.decode()

    async def feed(self, page: Page) -> int:
        text_bytes(page.cursor)
        tasks = [packed_task(task) for task in page.tasks]
        parts = list(_parts(tasks, [1] * len(tasks))) or [[]]
        new = 0
        for part in parts:
            new += await self._write("feed", part, page.cursor if part is parts[-1] else None)
        return new

    async def lanes(self, after: str | None, limit: int) -> Sequence[LaneWork]:
        found: list[LaneWork] = []
        beyond: Any = False if after is None else after
        while len(found) < limit:
            rows, last = await self._scripts.run("lanes", beyond, limit)
            found += [
                LaneWork(row[0].decode(), float(row[1]), float(row[2]), row[3]) for row in rows
            ]
            if last is None:
                break
            beyond = last.decode()
        return found[:limit]

    async def lease(self, wants: Mapping[str, int], now: float, ttl: float) -> Lease:
        asked = [(lane, want) for lane, want in wants.items() if want > 0]
        tasks: list[Task] = []
        dues: dict[str, float] = {}
        for part in _parts(asked, [want for _, want in asked]):
            rows, ends = await self._lease(repr(float(now)), repr(now + float(ttl)), part)
            tasks += [task_of(*row) for row in rows]
            dues |= {lane.decode(): float(due) for lane, due in ends}
        return Lease(tasks, dues)

    async def renew(self, keys: Sequence[str], now: float, ttl: float) -> None:
        for part in _parts(list(keys), [1] * len(keys)):
            await self._scripts.run("renew", self._owner, repr(now + float(ttl)), part)

    async def settle(self, receipts: Sequence[Receipt[CounterDelta]]) -> None:
        places = self._fence.places
        packed = [packed_receipt(one, places.part_of(one.task.key)) for one in receipts]
        weights = [1 + len(receipt.found) for receipt in receipts]
        for part in _parts(packed, weights):
            await self._write("settle", self._remember_done, part)
        for name in places.settled(one.task.key for one in receipts):
            await self._scripts.ask("SADD", "closed", name)

    async def hold(self, lane: str, until: float) -> None:
        text_bytes(lane)
        if not self._fence.covers(lane):
            return  # Not our lane, as after a redirect: its owner will notice by itself.
        await self._scripts.run("hold", lane, repr(float(until)))

    async def holds(self, now: float) -> Mapping[str, float]:
        rows = await self._scripts.run("holds", repr(float(now)))
        return {lane.decode(): float(until) for lane, until in rows}

    async def counts(self) -> Counts:
        answer = await self._scripts.run("counts")
        opened, leased, waiting, blocked, scheduled, remembered, attempts, settled = answer
        words = by_reason(settled)
        # These failures are not in the set of completed keys.
        remembered += sum(n for reason, n in words.items() if reason.again is not Again.NEVER)
        return Counts(
            opened, leased, waiting, blocked, scheduled, remembered, by_reason(attempts), words
        )

    async def failures(self, reason: Reason | None = None) -> AsyncIterator[Failure]:
        for word in await self._failed_words() if reason is None else [reason]:
            async for keys in self._scan("SSCAN", f"failed:{word}"):
                for row in await self._scripts.run("rows", "details", keys):
                    yield failure_of(word, *row)
        if reason in (None, Reason.BLOCKED):
            for lane in await self._blocked_lanes():
                async for failure in self._open_on(lane):
                    yield failure

    async def retry(self, reason: Reason | None = None) -> int:
        reopened = 0
        if reason in (None, Reason.BLOCKED):
            for lane in await self._blocked_lanes():
                for queue in _QUEUES:
                    reopened += await self._renew_all(lane, queue)
                await self.hold(lane, 0.0)
        for word in await self._failed_words() if reason is None else [reason]:
            while opened := await self._scripts.run("reopen_failed", word, _KEYS_AT_ONCE):
                reopened += opened
        # Running shards may have blocked these lanes: tell them to look again.
        await self._scripts.ask("HINCRBY", "wishes", "again", 1)
        return reopened

    async def retry_keys(self, failures: Sequence[Failure]) -> list[str]:
        by_word: dict[Reason, list[str]] = {}
        for one in failures:
            by_word.setdefault(one.reason, []).append(one.key)
        reopened: list[bytes] = []
        for word, keys in by_word.items():
            for part in _parts(keys, [1] * len(keys)):
                reopened += await self._scripts.run("reopen_failed", word, len(part), part)
        return [key.decode() for key in reopened]

    async def ask(self, command: str, name: str, *args: Any) -> Any:
        """One plain command on a key under the prefix."""
        return await self._scripts.ask(command, name, *args)

    async def run(self, script: str, *args: Any) -> Any:
        """Run one of the scripts; for data beside the crawl."""
        return await self._scripts.run(script, *args)

    async def erase(self) -> None:
        """Delete every key under the prefix. After an interruption, run it again before a crawl."""
        async for names in self._scripts.names():
            await self._scripts.delete(names)
        self._erased = True

    async def close(self) -> None:
        try:
            if self._erased:
                return  # Releasing leases of erased state would create keys.
            await self._scripts.run("release", self._owner)
            await self._scripts.ask("HDEL", "applied", self._writer)
            await self._scripts.ask("HDEL", "lent", self._writer)
        finally:
            await self._client.aclose()

    async def _begin(self, owner: str | None) -> None:
        await self._scripts.ask("SET", "format", FORMAT, "NX")
        found = await self._scripts.ask("GET", "format")
        if found != FORMAT:
            raise StoreError(
                f"the keys {self._prefix}* hold {found.decode(errors='replace')!r}, this program "
                f"writes {FORMAT.decode()!r}",
                "use the version of trawlnet that made them, or another prefix",
            )
        # Each opening numbers its own writes, so that two of one name cannot be confused.
        self._writer = str(await self._scripts.ask("INCR", "openings"))
        self._owner = owner or f"anonymous-{self._writer}"
        await self._scripts.run("release", self._owner)

    async def _lease(self, *args: Any) -> Any:
        """Lease under a number: if the call is sent again, it replaces the lost lease."""
        async with self._leasing:
            self._leases += 1
            return await self._scripts.run("lease", self._writer, self._leases, self._owner, *args)

    async def _write(self, script: str, *args: Any) -> int:
        """Run a script that must not be applied twice if it is sent again."""
        async with self._writing:
            self._sequence += 1
            return int(await self._scripts.run(script, self._writer, self._sequence, *args))

    async def _failed_words(self) -> list[Reason]:
        words = [Reason(word.decode()) for word in await self._scripts.ask("HKEYS", "settled")]
        return [word for word in words if not word.success]

    async def _blocked_lanes(self) -> list[str]:
        holds = await self._scripts.ask("HGETALL", "holds")
        return [lane.decode() for lane, until in holds.items() if float(until) == math.inf]

    async def _open_on(self, lane: str) -> AsyncIterator[Failure]:
        for queue in _QUEUES:
            async for members in self._scan("ZSCAN", f"{queue}:{lane}"):
                keys = [each if queue == "leases" else key_of(each) for each in members]
                for row in await self._scripts.run("rows", "tasks", keys):
                    yield failure_of(Reason.BLOCKED, *row)

    async def _renew_all(self, lane: str, queue: str) -> int:
        renewed = offset = 0
        while True:
            seen, some, offset = await self._scripts.run(
                "reopen_blocked", lane, queue, offset, _KEYS_AT_ONCE
            )
            renewed += int(some)
            if seen < _KEYS_AT_ONCE:
                return renewed

    async def _scan(self, command: str, name: str) -> AsyncIterator[list[str]]:
        position: Any = 0
        while True:
            position, found = await self._scripts.ask(command, name, position, "COUNT", SCAN_COUNT)
            members = [each[0] if isinstance(each, tuple) else each for each in found]
            yield [member.decode() for member in members]
            if int(position) == 0:
                return


def _parts(items: Sequence[T], weights: Iterable[int]) -> Iterator[list[T]]:
    """Items in runs of at most `_KEYS_AT_ONCE` in weight, but at least one item each."""
    part: list[T] = []
    total = 0
    for item, weight in zip(items, weights, strict=True):
        if part and total + weight > _KEYS_AT_ONCE:
            yield part
            part, total = [], 0
        part.append(item)
        total += weight
    if part:
        yield part


if TYPE_CHECKING:
    _STORE: type[Store[CounterDelta]] = RedisStore
