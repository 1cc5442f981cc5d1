"""What shards that share a crawl agree on in Redis: who owns what, what is to be done, and what is
published."""

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
    """What a fleet is told to do."""

    RUN = "run"
    DRAIN = "drain"  # Finish what is in flight, then stop.
    STOP = "stop"  # Stop now.
    DONE = "done"  # There is nothing left to do.
    LIMIT = "limit"  # A limit that the user set was reached.


@dataclass(frozen=True, slots=True)
class FleetPlan:
    version: int = 0  # Each change has a number of its own.
    run: int = 0  # Of the crawl command that goes on.
    shards: int = 0
    word: Word = Word.DONE
    crawler: str = ""  # Whose crawl it is; empty where none was begun.
    moved: Moves = ()
    asked: int = 0  # Shards that the command asked for when it began; `fleet scale` leaves it.

    def buckets_of(self, shard: int) -> frozenset[int]:
        return share_of(shard, self.shards, self.moved)


@dataclass(frozen=True, slots=True)
class ClaimAnswer:
    granted: bool
    wait: float = 0.0  # Seconds after which it is worth trying again.
    before: Sequence[str] = ()  # Tokens that owned these buckets until now.


@dataclass(frozen=True, slots=True)
class Beat:
    stands: bool
    plan: FleetPlan


@dataclass(frozen=True, slots=True)
class Heard:
    row: Mapping[str, Any]
    stands: float  # Seconds from now without another beat; negative when that time is over.


class FleetKeys:
    """Made by `await FleetKeys.open(url)`; with a token it speaks for one shard."""

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
                # Numbered over all shards: no two terms of ownership have the same name.
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
        """All of them or none; None when the plan has changed. `past` are tokens of our own."""
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
        """Whoever claims our buckets need not wait."""
        await self._scripts.ask("HDEL", "alive", self.token)

    async def woken(self, most: int) -> list[str]:
        """Lanes of ours for which others have found work since we last asked, some at a time."""
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
        """End a fleet that runs; what somebody else has told it before stands."""
        await self._scripts.run("close", word)
        return await self.plan()

    async def statuses(self) -> dict[int, Mapping[str, Any]]:
        """What each shard that stands said of itself at its last beat."""
        alive = await self._scripts.run("standing")
        rows = await self._scripts.ask("HGETALL", "shards")
        told = {int(shard): json.loads(row) for shard, row in rows.items()}
        return {n: row for n, row in sorted(told.items()) if row["token"].encode() in alive}

    async def heard(self) -> dict[int, Heard]:
        """What each shard said last, also one that is dead or frozen."""
        now, alive, rows = await self._scripts.run("heard")
        until = {token: int(till) for token, till in _pairs(alive)}
        told = {int(shard): json.loads(row) for shard, row in _pairs(rows)}
        return {
            shard: Heard(row, (until.get(row["token"].encode(), 0) - now) / 1000)
            for shard, row in sorted(told.items())
        }

    async def move(self, plan: FleetPlan, moved: Moves) -> FleetPlan | None:
        """Let these buckets be with these shards from now on; None if the plan has changed."""
        if not await self._scripts.run("move", plan.version, json.dumps(moved)):
            return None
        return await self.plan()

    async def waiting(self) -> dict[int, int]:
        """By bucket how many tasks are open on its lanes; on those that are blocked they stay."""
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
        """Tokens that own something, alive or not: nobody else can settle anything."""
        return {token.decode() for token in await self._scripts.ask("HVALS", "fences")}

    async def composable(self) -> list[str]:
        """Parts that can get no more keys: closed, or made by an owner who is none any more."""
        closed = await self._scripts.ask("SMEMBERS", "closed")
        owners = await self.owners()
        return [
            part
            for part in await self.parts()
            if part.encode() in closed or part.partition(".")[0] not in owners
        ]

    async def placed(self, part: str) -> set[bytes]:
        """Keys whose results in this part count."""
        return set(await self._scripts.ask("SMEMBERS", f"placed:{part}"))

    async def next_segment(self) -> int:
        return int(await self._scripts.ask("INCR", "segment_num"))

    async def publish(self, parts: Sequence[str], line: Mapping[str, Any]) -> bool:
        """Put a segment in the place of its parts; False if somebody else has done so."""
        return bool(await self._scripts.run("publish", list(parts), json.dumps(line)))

    async def tallies(self, counters: Sequence[str]) -> list[int]:
        """What settlements have added to each counter."""
        found = await self._scripts.ask("HMGET", "tallies", *counters)
        return [int(value or 0) for value in found]

    async def left_out(self) -> dict[str, int]:
        """By why how many links were not asked for, over all shards and runs."""
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
