"""Firehoses beside the registry: how far each was read, and what they say is to be looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from trawlnet.tables.registry.notes import FOLDER
from trawlnet.tables.relational.database import (
    Relational,
    Statement,
    Transaction,
    Value,
    named,
    to_db,
)

# Of all accounts that may wait: those of one PDS, and those whose PDS is not known. So neither one
# server nor invented accounts take the places of others.
_PDS_SHARE, _SEARCH_SHARE = 10, 2
_AT_ONCE = 500  # Rescans that are granted in one transaction.
SEARCH = ""  # Instead of a PDS: it has to be found first.


@dataclass(frozen=True, slots=True)
class SavedStream:
    host: str
    seq: int
    time: str  # Of the last message, as its server has it.
    looks_back: bool
    saved_at: float


@dataclass(frozen=True, slots=True)
class StreamNews:
    """What messages of one firehose ask for."""

    changed: Collection[str] = ()  # Accounts whose wanted records changed.
    touched: Collection[str] = ()  # Accounts of which something else did, if we have met them.
    moved: Collection[str] = ()  # Those of them whose documents may have changed.
    home: str = ""  # The PDS that says so itself; empty: a relay does.
    is_gap: bool = False  # Messages were missed.
    is_anew: bool = False  # The server no longer knows our position.

    @property
    def is_empty(self) -> bool:
        return not (self.changed or self.touched or self.is_gap or self.is_anew)


@dataclass(frozen=True, slots=True)
class AskedFor:
    """What became of that."""

    looks: int = 0
    rescans: int = 0  # For want of room.
    overflowed: int = 0  # Accounts for which there was no room, at a PDS that nobody knows.


@dataclass(frozen=True, slots=True)
class DueLook:
    did: str
    asked: int  # How often, when it was read.
    is_moved: bool
    tries: int
    is_held: bool = False  # There may be records of it.
    is_begun: bool = False  # A scan has read a part of it.


class RegistryLooks:
    def __init__(self, db: Relational, most: int) -> None:
        """`most` accounts may wait at a time."""
        self._db = db
        self._most = most

    async def streams(self) -> list[SavedStream]:
        rows = await self._db.rows(self._sql("streams"))
        return [SavedStream(host, int(seq), time, bool(b), at) for host, seq, time, b, at in rows]

    async def save(self, stream: SavedStream, news: StreamNews, now: float) -> AskedFor:
        """The position, and what the messages before it ask for: both or nothing."""
        asked = Counter[str]()
        async with self._db.transaction() as transaction:
            if not news.is_empty:
                room = await self._room(transaction, now)
                for did in sorted({*news.changed, *news.touched}):
                    for url in await self._places(transaction, did, news):
                        moved = did in news.moved
                        asked[await room.ask(url, did, is_moved=moved)] += 1
            if news.is_gap or news.is_anew or asked["overflow"]:
                await self._ask_after_gap(transaction, news.home, now)
            if news.is_anew:
                await transaction.run(self._sql("forget_stream"), {"host": stream.host})
            else:
                await transaction.run(self._sql("save_stream"), _values(stream))
        return AskedFor(asked["look"], asked["rescan"], asked["overflow"])

    async def _places(self, transaction: Transaction, did: str, news: StreamNews) -> list[str]:
        """Where it is to be looked at. Only a look that found an account at home makes a PDS count
        as one: anybody can list accounts."""
        where = {"did": did}
        if did not in news.changed and not await transaction.rows(self._sql("is_met"), where):
            return []
        if news.home:
            return [news.home]
        homes = [url for (url,) in await transaction.rows(self._sql("homes"), where)]
        return homes or [SEARCH]

    async def _ask_after_gap(self, transaction: Transaction, home: str, now: float) -> None:
        if home:
            await transaction.run(self._sql("ask_rescan"), {"url": home, "now": self._at(now)})
        else:
            await transaction.run(self._sql("ask_every_rescan"), {"now": self._at(now)})

    async def due_places(self, now: float, most: int) -> list[str]:
        values: dict[str, Value] = {"now": self._at(now), "most": most}
        return [url for (url,) in await self._db.rows(self._sql("due_places"), values)]

    async def due_looks(self, url: str, scope: str, now: float, most: int) -> list[DueLook]:
        values: dict[str, Value] = {"url": url, "scope": scope, "now": self._at(now), "most": most}
        return [
            DueLook(did, asked, bool(moved), tries, bool(held), bool(begun))
            for did, asked, moved, tries, held, begun in await self._db.rows(
                self._sql("due_looks"), values
            )
        ]

    async def due_searches(self, now: float, in_directory: bool, most: int) -> list[DueLook]:
        """Accounts that the directory knows, or those that other servers do."""
        values: dict[str, Value] = {"now": self._at(now), "most": most}
        values["in_directory"] = int(in_directory)
        rows = await self._db.rows(self._sql("due_searches"), values)
        return [DueLook(did, asked, bool(moved), tries) for did, asked, moved, tries in rows]

    async def found(self, look: DueLook, url: str, now: float) -> None:
        """The PDS of an account whose place was not known."""
        async with self._db.transaction() as transaction:
            await transaction.run(self._sql("drop_search"), {"did": look.did})
            room = await self._room(transaction, now)
            await room.ask(url, look.did, is_moved=look.is_moved, tries=look.tries)

    async def lost(self, look: DueLook) -> None:
        """Nobody knows where it lives."""
        await self._db.run(self._sql("drop_search"), {"did": look.did})

    async def search_later(self, look: DueLook, due: float) -> None:
        await self._db.run(self._sql("search_later"), {"did": look.did, "due": self._at(due)})

    async def looked(self, url: str, look: DueLook, now: float, again: float) -> None:
        """It was looked at, and is not looked at again before the instant `again`."""
        await self._db.run(self._sql("seen_look"), self._seen(url, look, again))

    async def moved(self, url: str, look: DueLook, now: float, again: float) -> None:
        """It does not live there any more."""
        async with self._db.transaction() as transaction:
            await transaction.run(self._sql("seen_look"), self._seen(url, look, again))
            room = await self._room(transaction, now)
            await room.ask(SEARCH, look.did, is_moved=True, tries=look.tries + 1)

    async def left_to_scan(self, url: str, look: DueLook, now: float, again: float) -> None:
        """The account takes longer than a look may: a scan of its PDS goes on with it."""
        async with self._db.transaction() as transaction:
            await transaction.run(self._sql("seen_look"), self._seen(url, look, again))
            await transaction.run(self._sql("ask_rescan"), {"url": url, "now": self._at(now)})

    async def later(self, url: str, due: float) -> None:
        """The PDS cannot be asked now."""
        await self._db.run(self._sql("looks_later"), {"url": url, "due": self._at(due)})

    async def give_up(self, url: str, now: float) -> None:
        """The PDS cannot be asked: a scan, whenever that can be, finds all that has changed."""
        async with self._db.transaction() as transaction:
            await transaction.run(self._sql("ask_rescan"), {"url": url, "now": self._at(now)})
            await transaction.run(self._sql("drop_looks"), {"url": url})

    async def ask_rescan(self, url: str, now: float) -> None:
        await self._db.run(self._sql("ask_rescan"), {"url": url, "now": self._at(now)})

    async def grant(self, scope: str, now: float, pause: float) -> int:
        """Make PDSes due that are to be scanned, each no sooner than `pause` seconds after its last
        whole scan. One that is under way goes on first: the rest of it may be too late."""
        at, granted = self._at(now), 0
        values: dict[str, Value] = {"scope": scope, "now": at, "most": _AT_ONCE}
        values["before"] = self._at(now - pause)
        async with self._db.transaction() as transaction:
            for url, is_under_way in await transaction.rows(self._sql("rescans"), values):
                if is_under_way:
                    continue
                if not await transaction.run(self._sql("grant_rescan"), {"url": url, "now": at}):
                    continue
                granted += 1
                await transaction.run(self._sql("due_for_scope"), {"url": url, "scope": scope})
                await transaction.run(self._sql("drop_rescan"), {"url": url})
        return granted

    async def tidy(self, now: float) -> tuple[int, int]:
        """Forgets looks of the past. Returns how many looks and rescans are to be made."""
        await self._db.run(self._sql("forget_seen_looks"), {"now": self._at(now)})
        return await self.waiting()

    async def waiting(self) -> tuple[int, int]:
        ((looks, rescans),) = await self._db.rows(self._sql("count_waiting"))
        return int(looks), int(rescans)

    async def sure_places(self, most: int) -> list[str]:
        """PDSes whose firehoses are worth reading."""
        rows = await self._db.rows(self._sql("sure_places"), {"most": most})
        return [url for (url,) in rows]

    async def _room(self, transaction: Transaction, now: float) -> _Room:
        await transaction.run(self._sql("forget_seen_looks"), {"now": self._at(now)})
        rows = await transaction.rows(self._sql("count_looks"))
        counts = Counter({url: int(count) for url, count in rows})
        return _Room(self, transaction, counts, self._at(now))

    def _seen(self, url: str, look: DueLook, again: float) -> dict[str, Value]:
        return {"url": url, "did": look.did, "asked": look.asked, "due": self._at(again)}

    def _at(self, now: float) -> Value:
        return to_db(self._db.dialect, now)

    def _sql(self, name: str) -> Statement:
        return named(FOLDER, name, self._db.dialect)


@dataclass(slots=True)
class _Room:
    """The places of those that wait, within one transaction."""

    looks: RegistryLooks
    transaction: Transaction
    counts: Counter[str]
    at: Value

    async def ask(self, url: str, did: str, *, is_moved: bool, tries: int = 0) -> str:
        """What is asked for: a look, a rescan where there is no room, or nothing."""
        sql, run = self.looks._sql, self.transaction.run
        again: dict[str, Value] = {"url": url, "did": did, "is_moved": int(is_moved)}
        if await run(sql("ask_again"), again):
            return "look"
        first = again | {"tries": tries, "now": self.at}
        if self._is_free(url):
            self.counts[url] += await run(sql("ask_look" if url else "ask_search"), first)
            return "look"
        if not url:
            return "overflow"
        await run(sql("ask_rescan"), {"url": url, "now": self.at})
        return "rescan"

    def _is_free(self, url: str) -> bool:
        most = self.looks._most
        share = _SEARCH_SHARE if url == SEARCH else _PDS_SHARE
        return self.counts.total() < most and self.counts[url] < max(1, most // share)


def _values(stream: SavedStream) -> dict[str, Value]:
    return {
        "host": stream.host,
        "seq": stream.seq,
        "time": stream.time,
        "looks_back": int(stream.looks_back),
        "saved_at": stream.saved_at,
    }
