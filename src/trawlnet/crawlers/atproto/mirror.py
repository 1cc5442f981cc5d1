"""Mirror the PLC directory into tables: fetch pages, store batches, remember how far we are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from trawlnet.crawlers.atproto import operations
from trawlnet.crawlers.atproto.export import ExportCursor, ExportForm, ExportPage
from trawlnet.crawlers.atproto.operations import Chains
from trawlnet.crawlers.atproto.reader import Directory, ExportReader, MirrorCounts
from trawlnet.crawlers.atproto.recent_heads import RecentHeads
from trawlnet.crawlers.atproto.stream import StreamTries, gather, read_messages, stream_url
from trawlnet.crawlers.errors import NotReady, Unanswered
from trawlnet.engine.gate import LaneParked
from trawlnet.net.client.websocket import WebSocket
from trawlnet.net.lane import lane_of
from trawlnet.net.trouble import EXPECTED, trouble_from
from trawlnet.tables.clickhouse import plc
from trawlnet.tables.clickhouse.plc import Cursor
from trawlnet.tables.clickhouse.plc_rows_plain import OperationRow
from trawlnet.tables.clickhouse.ports import Tables

T = TypeVar("T")

_BATCH = 20_000  # Operations stored at once.
_BATCH_SECONDS = 10.0  # What was fetched is stored after this time, full batch or not.
_POLL_SECONDS = 5.0  # Between two looks at a directory that has told everything.


@dataclass(slots=True)
class _Batch:
    place: ExportCursor
    rows: list[OperationRow] = field(default_factory=list)
    chains: Chains = field(default_factory=Chains)
    is_last: bool = False
    failure: Unanswered | None = None  # Why it is not fuller.

    def add(self, page: ExportPage) -> None:
        self.rows += page.rows
        self.chains.add(page.rows)
        self.place, self.is_last = page.place, page.is_last


# What DIDs stand for now, as operations that were just stored say: the directory had no newer ones.
OnNews = Callable[[Sequence[OperationRow]], Awaitable[None]]


class PlcMirror:
    """`await mirror.run(...)`; stopped by its event, with everything fetched so far stored."""

    def __init__(
        self,
        directory: Directory,
        tables: Tables,
        stop: asyncio.Event,
        *,
        follow: bool = False,
        on_news: OnNews | None = None,
    ) -> None:
        self._directory = directory
        self._tables = tables
        self._stop = stop
        self._follow = follow
        self._on_news = on_news
        self.tally = MirrorCounts()
        self._reader = ExportReader(directory, self.tally, tireless=follow)
        self._tries = StreamTries()
        self._recent = RecentHeads()

    async def run(self, stored: Callable[[MirrorCounts], None]) -> None:
        """Until the directory has told everything, or as long as it is followed. Tells each batch
        that was stored. Raises Unanswered, NotReady."""
        batch = await self._fill(await self._begin())
        while not (self._stop.is_set() or batch.failure or (batch.is_last and not self._follow)):
            if batch.is_last:
                await self._store(batch)
                stored(self.tally)
                batch = await self._fill(await self._go_on(batch.place, stored))
            else:
                batch = await self._fill_while_storing(batch)
                stored(self.tally)
        await self._store(batch)
        stored(self.tally)
        if batch.failure:
            raise batch.failure

    async def _go_on(
        self, place: ExportCursor, stored: Callable[[MirrorCounts], None]
    ) -> ExportCursor:
        """When the directory has told everything: listens to its stream, or waits a while. Returns
        where pages go on."""
        clock = self._directory.clock
        error: Exception | None = None
        if not self._has_stream(place):
            await self._unless_stopped(clock.sleep(_POLL_SECONDS))
            return place
        try:
            self.tally.stream = await self._listen(place, stored) or self.tally.stream
        except LaneParked:
            self.tally.stream = "waiting: requests to the directory are paused"
        except EXPECTED as trouble:
            error = trouble
            self.tally.stream = trouble_from(error, self._directory.url).detail
        self._tries.fail(clock.now(), error)
        return replace(place, position=self.tally.position)

    def _has_stream(self, place: ExportCursor) -> bool:
        is_possible = self._directory.open_stream is not None and place.form is ExportForm.SEQ
        return is_possible and self._tries.is_due(self._directory.clock.now())

    async def _listen(self, place: ExportCursor, stored: Callable[[MirrorCounts], None]) -> str:
        """Stores what the stream tells. Returns why pages have to go on, or raises it; nothing
        when it is stopped."""
        async with AsyncExitStack() as stack:
            socket = await self._unless_stopped(self._connect(stack, place))
            while socket is not None and (messages := await self._unless_stopped(gather(socket))):
                private = self._directory.allow_private
                heard = read_messages(messages, place, allow_private=private)
                page = heard.page
                self.tally.malformed += page.malformed
                if page.place != place:
                    batch = _Batch(place)
                    batch.add(replace(page, is_last=True))
                    await self._store(batch)
                    self.tally.streamed += len(page.rows)
                    self._tries.succeed()
                    place = page.place
                    stored(self.tally)
                if heard.why:
                    return heard.why
        return ""

    async def _connect(self, stack: AsyncExitStack, place: ExportCursor) -> WebSocket:
        directory = self._directory
        assert directory.open_stream is not None
        async with directory.gate.turn(lane_of(directory.url)):
            opening = directory.open_stream(stream_url(directory.url, place))
            socket = await stack.enter_async_context(opening)
        self.tally.stream = "open"
        return socket

    async def _begin(self) -> ExportCursor:
        url, cursor = self._directory.url, await plc.load_cursor(self._tables)
        if cursor is None:
            return ExportCursor()
        if cursor.source != url:
            raise NotReady(
                f"these tables mirror {cursor.source}, not {url}",
                "mirror another directory into another workspace or database",
            )
        self.tally.position, self.tally.form = cursor.position, ExportForm(cursor.form)
        return ExportCursor(ExportForm(cursor.form), cursor.position)

    async def _fill_while_storing(self, batch: _Batch) -> _Batch:
        filling = asyncio.create_task(self._fill(batch.place))
        try:
            await self._store(batch)
        except BaseException:
            filling.cancel()
            raise
        return await filling

    async def _fill(self, place: ExportCursor) -> _Batch:
        """Pages up to a full batch, the end of the export, or a signal to stop."""
        clock, batch = self._directory.clock, _Batch(place)
        deadline = clock.now() + _BATCH_SECONDS
        while len(batch.rows) < _BATCH and not batch.is_last:
            if batch.rows and clock.now() > deadline:
                break
            try:
                page = await self._unless_stopped(self._reader.page(batch.place))
            except Unanswered as failure:
                batch.failure = failure
                break
            if page is None:
                break
            batch.add(page)
        return batch

    async def _store(self, batch: _Batch) -> None:
        """Operations first, then what they make of their DIDs, and the cursor last: whatever a
        crash leaves undone is done again, and doing it twice changes nothing."""
        tables, rows = self._tables, batch.rows
        if rows:
            changes = await self._changes(batch)
            await plc.insert_operations(tables, rows)
            await plc.nullify(tables, changes.undone)
            await plc.insert_states(tables, changes.heads)
            if self._on_news is not None and batch.is_last:
                await self._on_news(changes.heads)
            self._recent.learn(batch.chains, stored=self.tally.position)
            self.tally.operations += len(rows)
            self.tally.orphans += changes.orphans
        position, form = batch.place.position, batch.place.form
        if position > self.tally.position:
            await plc.save_cursor(tables, Cursor(self._directory.url, str(form), position))
        self.tally.position, self.tally.form = position, form
        self.tally.caught_up = batch.is_last

    async def _changes(self, batch: _Batch) -> operations.TableChanges:
        chains = batch.chains
        building_on = chains.building_on()
        stored = self._recent.known(building_on)
        stored |= await plc.heads(self._tables, [did for did in building_on if did not in stored])
        heads = chains.plain_heads(stored)
        odd = chains.odd_groups(batch.rows)
        changes = operations.fold(odd, await plc.links(self._tables, odd))
        changes.heads += heads
        return changes

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """None when the signal to stop came first; the work is given up then."""
        working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else None
        finally:
            for task in (working, stopping):
                task.cancel()
            await asyncio.gather(working, stopping, return_exceptions=True)
