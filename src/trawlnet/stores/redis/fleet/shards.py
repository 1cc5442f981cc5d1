"""The state that shards of one crawl share in Redis: the plan, the owners of buckets, and the
published parts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from redis.asyncio import Redis

from trawlnet.engine.partition import Moves, bucket_of, share_of
from trawlnet.stores.errors import StoreError
from trawlnet.stores.redis.scripts import SCAN_COUNT, Scripts, connect
from trawlnet.stores.redis.window import FleetWindow

_SCRIPTS: Final = ("beat", "claim", "close", "heard", "move", "publish", "standing")


class Word(StrEnum):
    """The command to a fleet."""

    RUN = "run"
    DRAIN = "drain"  # Finish the tasks in flight, then stop.
    STOP = "stop"  # Stop immediately.
    DONE = "done"  # No task is left.
    LIMIT = "limit"  # A limit that the user set was reached.


@dataclass(frozen=True, slots=True)
class FleetPlan:
    version: int = 0  # Each change has a number of its own.
    run: int = 0  # The number of the crawl command.
    shards: int = 0
    word: Word = Word.DONE
    crawler: str = ""  # The name of the crawler; empty if no crawl has begun.
    moved: Moves = ()
    asked: int = 0  # Shards that the command asked for at its start; `fleet scale` keeps it.

    def buckets_of(self, shard: int) -> frozenset[int]:
        return share_of(shard, self.shards, self.moved)


@dataclass(frozen=True, slots=True)
class ClaimAnswer:
    granted: bool
    wait: float = 0.0  # Seconds to wait before the next try.
    before: Sequence[str] = ()  # Tokens of the previous owners of these buckets.


@dataclass(frozen=True, slots=True)
class Beat:
    stands: bool
    plan: FleetPlan


@dataclass(frozen=True, slots=True)
class Heard:
    row: Mapping[str, Any]
    stands: float  # Seconds until its lease ends without another beat; negative afterwards.


class FleetKeys:
    """Made by `await FleetKeys.open(url)`; with a token, it acts for one shard."""

    def __init__(self, client: Redis, url: str, prefix: str, token: str) -> None:
        self._client = client
        self._scripts = Scripts(client, url, prefix, _SCRIPTS, token)
        self.window = FleetWindow(self._scripts)
        self.token = token

    @classmethod
    async def open(
        cls, url: str, *, shard: int | None = None, prefix: str = "crawler:"
    ) -> FleetKeys:
        client = connect(url)
        scripts = Scripts(client, url, prefix, ())
        token = ""
        try:
            if shard is not None:
                # Numbered over all shards, so that no two terms have the same token.
                token = f"s{shard:03d}-{await scripts.ask('INCR', 'epochs'):08d}"
        except StoreError:
            await client.aclose()
            raise
        return cls(client, url, prefix, token)

    async def close(self) -> None:
        await self._client.aclose()

    async def claim(
        self, plan: FleetPlan, buckets: Collection[int], past: Sequence[str], stands: float
    ) -> ClaimAnswer | None:
        """Claim all buckets or none; None if the plan has changed. `past` are our older tokens."""
        answer, rest = await self._scripts.run(
            "claim", plan.version, sorted(buckets), list(past), int(stands * 1000)
        )
        if answer < 0:
            return None
        if not answer:
            return ClaimAnswer(False, wait=rest / 1000)
        return ClaimAnswer(True, before=[token.decode() for token in rest])

    async def beat(self, shard: int, status: Mapping[str, Any], stands: float) -> Beat:
        answer, plan = await self._scripts.run(
            "beat", shard, json.dumps(status), int(stands * 1000)
        )
        return Beat(bool(answer), _plan(dict(_pairs(plan))))

    async def release(self) -> None:
        """End our lease, so that the next owner of our buckets need not wait."""
        await self._scripts.ask("HDEL", "alive", self.token)

    async def woken(self, most: int) -> list[str]:
        """Lanes of ours for which other shards have found work since the last call, in batches."""
        found = await self._scripts.ask("SPOP", f"woken:{self.token}", most)
        return [lane.decode() for lane in found]

    async def plan(self) -> FleetPlan:
        return _plan(await self._scripts.ask("HGETALL", "plan"))

    async def change(self, **fields: int | str) -> FleetPlan:
        """Change the plan; every shard sees it at its next beat."""
        flat = [text for name, value in fields.items() for text in (name, value)]
        if flat:
            await self._scripts.ask("HSET", "plan", *flat)
        await self._scripts.ask("HINCRBY", "plan", "version", 1)
        return await self.plan()

    async def end(self, word: Word) -> FleetPlan:
        """End a running fleet; an earlier command to end it stays in force."""
        await self._scripts.run("close", word)
        return await self.plan()

    async def statuses(self) -> dict[int, Mapping[str, Any]]:
        """The last report of each live shard."""
        alive = await self._scripts.run("standing")
        rows = await self._scripts.ask("HGETALL", "shards")
        reports = {int(shard): json.loads(row) for shard, row in rows.items()}
        return {n: row for n, row in sorted(reports.items()) if row["token"].encode() in alive}

    async def heard(self) -> dict[int, Heard]:
        """The last report of each shard, also of dead or frozen ones."""
        now, alive, rows = await self._scripts.run("heard")
        until = {token: int(till) for token, till in _pairs(alive)}
        reports = {int(shard): json.loads(row) for shard, row in _pairs(rows)}
        return {
            shard: Heard(row, (until.get(row["token"].encode(), 0) - now) / 1000)
            for shard, row in sorted(reports.items())
        }

    async def move(self, plan: FleetPlan, moved: Moves) -> FleetPlan | None:
        """Move these buckets to these shards; None if the plan has changed."""
        if not await self._scripts.run("move", plan.version, json.dumps(moved)):
            return None
        return await self.plan()

    async def waiting(self) -> dict[int, int]:
        """The number of open tasks by bucket, without those on blocked lanes."""
        holds = await self._scripts.ask("HGETALL", "holds")
        found: Counter[int] = Counter()
        position: Any = 0
        while True:
            position, rows = await self._scripts.ask(
                "HSCAN", "lane_open", position, "COUNT", SCAN_COUNT
            )
            for lane, number in rows.items():
                if holds.get(lane) != b"inf":
                    found[bucket_of(lane.decode())] += int(number)
            if int(position) == 0:
                return dict(found)

    async def forget_shard(self, shard: int) -> None:
        await self._scripts.ask("HDEL", "shards", shard)

    async def parts(self) -> list[str]:
        return sorted(name.decode() for name in await self._scripts.ask("SMEMBERS", "parts"))

    async def owners(self) -> set[str]:
        """Tokens that own buckets, alive or not: no other token can settle anything."""
        return {token.decode() for token in await self._scripts.ask("HVALS", "fences")}

    async def composable(self) -> list[str]:
        """Complete parts: closed ones, and those of tokens that own nothing any more."""
        closed = await self._scripts.ask("SMEMBERS", "closed")
        owners = await self.owners()
        return [
            part
            for part in await self.parts()
            if part.encode() in closed or part.partition(".")[0] not in owners
        ]

    async def placed(self, part: str) -> set[bytes]:
        """The keys whose settled results are in this part."""
        return set(await self._scripts.ask("SMEMBERS", f"placed:{part}"))

    async def next_segment(self) -> int:
        return int(await self._scripts.ask("INCR", "segment_num"))

    async def publish(self, parts: Sequence[str], line: Mapping[str, Any]) -> bool:
        """Replace parts by their segment; False if another process has done so."""
        return bool(await self._scripts.run("publish", list(parts), json.dumps(line)))

    async def tallies(self, counters: Sequence[str]) -> list[int]:
        """The values of these counters."""
        found = await self._scripts.ask("HMGET", "tallies", *counters)
        return [int(value or 0) for value in found]

    async def left_out(self) -> dict[str, int]:
        """The number of keys that were left out, by reason, over all shards and runs."""
        found = await self._scripts.ask("HGETALL", "left_out")
        return {why.decode(): int(links) for why, links in found.items()}

    async def manifest(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in await self._scripts.ask("LRANGE", "manifest", 0, -1)]


def _pairs(flat: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)


def _plan(fields: Mapping[bytes, bytes]) -> FleetPlan:
    if not fields:
        return FleetPlan()
    return FleetPlan(
        int(fields.get(b"version", 0)),
        int(fields.get(b"run", 0)),
        int(fields.get(b"shards", 0)),
        Word(fields.get(b"word", b"done").decode()),
        fields.get(b"crawler", b"repos").decode(),
        tuple((bucket, shard) for bucket, shard in json.loads(fields.get(b"moved", b"[]"))),
        int(fields.get(b"asked", 0)),
    )
