"""Mirror the PLC directory into tables: fetch pages, store batches, remember how far we are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from trawlnet.crawlers.atproto import operations
from trawlnet.crawlers.atproto.export import (
    ExportPage,
    Form,
    Lines,
    Place,
    fetch_lines,
    page_url,
    read_page,
)
from trawlnet.crawlers.errors import NotReady, Unanswered
from trawlnet.crawlers.metered import Getter
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Again, Outcome, Reason
from trawlnet.engine.ports import Clock
from trawlnet.engine.rules import RetryPolicy
from trawlnet.net.lane import lane_of
from trawlnet.tables import plc
from trawlnet.tables.plc import Cursor, OperationRow
from trawlnet.tables.ports import Tables

T = TypeVar("T")

_BATCH = 20_000  # Operations stored at once.
_BATCH_SECONDS = 10.0  # What was fetched is stored after this time, full batch or not.
_POLL_SECONDS = 5.0  # Between two looks at a directory that has told everything.
_RETRY = RetryPolicy(attempts=8, patience=100, base=1.0, cap=300.0)
# Answers of a directory without the numbered export, and how often they must come: an old version
# breaks when it is asked, but so does any server now and then.
_NO_SUCH_FORM = {Reason.HTTP_ERROR: 1, Reason.NOT_FOUND: 1, Reason.UNAVAILABLE: 3}
_NEVER = 1 << 30  # Tries.
_MOST_IDLE = 5  # Pages; a body that is cut early may lead nowhere now and then.


@dataclass(slots=True)
class Tally:
    """What one run of the mirror has done so far."""

    pages: int = 0
    operations: int = 0  # Stored, repeats included.
    malformed: int = 0  # Lines that were skipped.
    orphans: int = 0  # Operations that follow one which was never told.
    crowded: int = 0  # Instants, of an export by time, of which some operations may be missing.
    retries: int = 0
    position: int = 0
    form: Form = Form.SEQ
    caught_up: bool = False


@dataclass(frozen=True, slots=True)
class Directory:
    """Where operations come from, and how we behave there."""

    url: str  # An origin, without a slash at its end.
    http: Getter
    gate: Gate
    clock: Clock
    allow_private: bool = False


@dataclass(slots=True)
class _Batch:
    place: Place
    rows: list[OperationRow] = field(default_factory=list)
    is_last: bool = False


class PlcMirror:
    """`await mirror.run(...)`; stopped by its event, with everything fetched so far stored."""

    def __init__(
        self, directory: Directory, tables: Tables, stop: asyncio.Event, *, follow: bool = False
    ) -> None:
        self._directory = directory
        self._tables = tables
        self._stop = stop
        self._follow = follow
        self._lane = lane_of(directory.url)
        self._idle = 0  # Pages in a row that led nowhere.
        self.tally = Tally()

    async def run(self, stored: Callable[[Tally], None]) -> None:
        """Until the directory has told everything, or as long as it is followed. Tells each batch
        that was stored. Raises Unanswered, NotReady."""
        batch = await self._fill(await self._begin())
        while not (self._stop.is_set() or (batch.is_last and not self._follow)):
            if batch.is_last:
                await self._store(batch)
                stored(self.tally)
                await self._unless_stopped(self._directory.clock.sleep(_POLL_SECONDS))
                batch = await self._fill(batch.place)
            else:
                batch = await self._fill_while_storing(batch)
                stored(self.tally)
        await self._store(batch)
        stored(self.tally)

    async def _begin(self) -> Place:
        url, cursor = self._directory.url, await plc.load_cursor(self._tables)
        if cursor is None:
            return Place()
        if cursor.source != url:
            raise NotReady(
                f"these tables mirror {cursor.source}, not {url}",
                "mirror another directory into another workspace or database",
            )
        self.tally.position, self.tally.form = cursor.position, Form(cursor.form)
        return Place(Form(cursor.form), cursor.position)

    async def _fill_while_storing(self, batch: _Batch) -> _Batch:
        filling = asyncio.create_task(self._fill(batch.place))
        try:
            await self._store(batch)
        except BaseException:
            filling.cancel()
            raise
        return await filling

    async def _fill(self, place: Place) -> _Batch:
        """Pages up to a full batch, the end of the export, or a signal to stop."""
        clock, batch = self._directory.clock, _Batch(place)
        deadline = clock.now() + _BATCH_SECONDS
        while len(batch.rows) < _BATCH and not batch.is_last:
            if batch.rows and clock.now() > deadline:
                break
            page = await self._unless_stopped(self._page(batch.place))
            if page is None:
                break
            batch.rows += page.rows
            batch.place, batch.is_last = page.place, page.is_last
        return batch

    async def _page(self, place: Place) -> ExportPage:
        """The page at a place, however often it must be asked for."""
        tries = waits = 0
        while True:
            url = page_url(self._directory.url, place)
            answer = await fetch_lines(self._directory.http, url, self._lane)
            if isinstance(answer, Lines):
                self._directory.gate.observe(self._lane, Outcome(Reason.OK))
                return self._read(answer, place)
            if answer.reason.again is Again.PATIENT:
                waits += 1
            else:
                tries += 1
            if place == Place() and tries >= _NO_SUCH_FORM.get(answer.reason, _NEVER):
                return ExportPage((), Place(Form.TIME), is_last=False)
            if not self._follow and (tries >= _RETRY.attempts or waits > _RETRY.patience):
                raise Unanswered(
                    f"{self._directory.url} does not tell its operations: "
                    f"{answer.reason}: {answer.detail}",
                    "what was mirrored is stored; run the same command again to go on",
                )
            await self._put_off(answer, url, tries)

    def _read(self, lines: Lines, place: Place) -> ExportPage:
        page = read_page(lines, place, allow_private=self._directory.allow_private)
        if page is not None:
            self._watch_for_circles(place, page)
            self.tally.pages += 1
            self.tally.malformed += page.malformed
            self.tally.crowded += page.was_crowded
            return page
        if place == Place():
            return ExportPage((), Place(Form.TIME), is_last=False)
        raise Unanswered(
            f"{self._directory.url} sends a page without sequence numbers after {place.position}",
            "look at it with curl; what was mirrored is stored",
        )

    def _watch_for_circles(self, place: Place, page: ExportPage) -> None:
        before, after = replace(place, strictly=False), replace(page.place, strictly=False)
        self._idle = self._idle + 1 if before == after and not page.is_last else 0
        if self._idle > _MOST_IDLE:
            raise Unanswered(
                f"{self._directory.url} tells the same page again and again after {place.position}",
                "look at it with curl; what was mirrored is stored",
            )

    async def _put_off(self, outcome: Outcome, url: str, tries: int) -> None:
        self.tally.retries += 1
        clock = self._directory.clock
        parked = self._directory.gate.observe(self._lane, outcome) - clock.now()
        await clock.sleep(max(parked, outcome.wait or 0.0, _RETRY.delay(url, tries)))

    async def _store(self, batch: _Batch) -> None:
        """Operations first, then what they make of their DIDs, and the cursor last: whatever a
        crash leaves undone is done again, and doing it twice changes nothing."""
        tables, rows = self._tables, batch.rows
        if rows:
            changes = await self._changes(rows)
            await plc.insert_operations(tables, rows)
            await plc.nullify(tables, changes.undone)
            await plc.insert_states(tables, changes.heads)
            self.tally.operations += len(rows)
            self.tally.orphans += changes.orphans
        position, form = batch.place.position, batch.place.form
        if position > self.tally.position:
            await plc.save_cursor(tables, Cursor(self._directory.url, str(form), position))
        self.tally.position, self.tally.form = position, form
        self.tally.caught_up = batch.is_last

    async def _changes(self, rows: list[OperationRow]) -> operations.Changes:
        groups = operations.by_did(rows)
        building_on = [did for did, group in groups.items() if operations.continues(group)]
        known = await plc.heads(self._tables, building_on)
        heads, odd = [], {}
        for did, group in groups.items():
            head = operations.plain_head(group, known.get(did, ""))
            if head is None:
                odd[did] = group
            else:
                heads.append(head)
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
