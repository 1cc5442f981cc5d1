"""Reading the PLC directory's export page by page, however the directory behaves."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

from trawlnet.crawlers.atproto.export import (
    ExportCursor,
    ExportForm,
    ExportPage,
    Lines,
    fetch_lines,
    page_url,
    read_page,
)
from trawlnet.crawlers.errors import NotReady, Unanswered
from trawlnet.crawlers.metered import Getter
from trawlnet.crawlers.reachable import PRIVATE_HINT
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Again, Outcome, Reason
from trawlnet.engine.ports import Clock
from trawlnet.engine.rules import RetryPolicy
from trawlnet.malformed import Malformed
from trawlnet.net.client.websocket import WebSocket
from trawlnet.net.lane import lane_of

_RETRY = RetryPolicy(attempts=8, patience=100, base=1.0, cap=300.0)
# Answers of a directory without the numbered export, and how often they must come: an old version
# breaks when it is asked, but so does any server now and then.
_NO_SUCH_FORM = {Reason.HTTP_ERROR: 1, Reason.NOT_FOUND: 1, Reason.UNAVAILABLE: 3}
# No word from the host. One that was never heard in this run is more likely named wrongly than
# down for a moment: it is asked for some 15 seconds only.
_SILENT = (Reason.CONNECTION_ERROR, Reason.DNS_ERROR)
_TRIES_UNHEARD = 4
_NEVER = 1 << 30  # Tries.
_MOST_IDLE = 5  # Pages; a body that is cut early may lead nowhere now and then.


@dataclass(slots=True)
class MirrorCounts:
    """What one run of the mirror has done so far."""

    pages: int = 0
    operations: int = 0  # Stored, repeats included.
    malformed: int = 0  # Lines that were skipped.
    orphans: int = 0  # Operations that follow one which was never told.
    crowded: int = 0  # Instants, of an export by time, of which some operations may be missing.
    retries: int = 0
    position: int = 0
    form: ExportForm = ExportForm.SEQ
    caught_up: bool = False
    streamed: int = 0  # Of the operations: heard from the stream.
    stream: str = ""  # `open`, or why it is not; empty where nobody asked for it.


@dataclass(frozen=True, slots=True)
class Wait:
    """A directory does not tell what it was asked for, and is asked again later."""

    url: str
    why: str
    was_answered: bool  # Though not with operations.
    seconds: float


def unsaid(wait: Wait) -> None:
    """For whoever has nobody to tell."""


@dataclass(frozen=True, slots=True)
class Directory:
    """Where operations come from, and how we behave there."""

    url: str  # An origin, without a slash at its end.
    http: Getter
    gate: Gate
    clock: Clock
    allow_private: bool = False
    on_wait: Callable[[Wait], None] = unsaid
    # To follow it as it goes on; without, it is looked at every few seconds.
    open_stream: Callable[[str], AbstractAsyncContextManager[WebSocket]] | None = None


class ExportReader:
    def __init__(
        self, directory: Directory, tally: MirrorCounts, *, tireless: bool = False
    ) -> None:
        """Tireless: asks for ever, instead of raising when the directory does not answer."""
        self._directory = directory
        self._lane = lane_of(directory.url)
        self._tireless = tireless
        self._idle = 0  # Pages in a row that led nowhere.
        self._heard = False  # Whether the host has said anything in this run.
        self.tally = tally

    async def page(self, place: ExportCursor) -> ExportPage:
        """The page at a place, however often it must be asked for. Raises Unanswered,
        and NotReady where we may not ask it."""
        tries = waits = 0
        while True:
            url = page_url(self._directory.url, place)
            answer = await fetch_lines(
                self._directory.http,
                url,
                self._lane,
                allow_private=self._directory.allow_private,
            )
            if isinstance(answer, Lines):
                self._directory.gate.observe(self._lane, Outcome(Reason.OK))
                self._heard = True
                return self._read(answer, place, url)
            if answer.reason is Reason.REFUSED:
                # By ourselves: asking again is no use, however patient somebody is.
                raise NotReady(f"{self._directory.url} is refused: {answer.detail}", PRIVATE_HINT)
            self._heard |= answer.reason not in _SILENT
            if answer.reason.again is Again.PATIENT:
                waits += 1
            else:
                tries += 1
            if place == ExportCursor() and tries >= _NO_SUCH_FORM.get(answer.reason, _NEVER):
                return ExportPage((), ExportCursor(ExportForm.TIME), is_last=False)
            if not self._tireless and (tries >= self._attempts() or waits > _RETRY.patience):
                raise Unanswered(
                    f"{self._directory.url} does not return its operations: "
                    f"{answer.reason}: {answer.detail}",
                    self._hint("run the same command again to continue"),
                )
            await self._put_off(answer, url, tries)

    def _attempts(self) -> int:
        return _RETRY.attempts if self._heard else min(_TRIES_UNHEARD, _RETRY.attempts)

    def _hint(self, what_to_do: str) -> str:
        return f"what was read is stored; {what_to_do}" if self.tally.pages else what_to_do

    def _read(self, lines: Lines, place: ExportCursor, url: str) -> ExportPage:
        try:
            page = read_page(lines, place, allow_private=self._directory.allow_private)
        except Malformed as error:
            raise Unanswered(
                f"{url}: {Reason.PARSE_ERROR}: expected JSON lines of an export: {error}",
                self._hint("look at it with curl; is it the URL of a PLC directory?"),
            ) from None
        if page is not None:
            self._watch_for_circles(place, page)
            self.tally.pages += 1
            self.tally.malformed += page.malformed
            self.tally.crowded += page.was_crowded
            return page
        if place == ExportCursor():
            return ExportPage((), ExportCursor(ExportForm.TIME), is_last=False)
        raise Unanswered(
            f"{self._directory.url} sends a page without sequence numbers after {place.position}",
            self._hint("look at it with curl"),
        )

    def _watch_for_circles(self, place: ExportCursor, page: ExportPage) -> None:
        before, after = replace(place, strictly=False), replace(page.place, strictly=False)
        self._idle = self._idle + 1 if before == after and not page.is_last else 0
        if self._idle > _MOST_IDLE:
            raise Unanswered(
                f"{self._directory.url} keeps returning the same page after {place.position}",
                self._hint("look at it with curl"),
            )

    async def _put_off(self, outcome: Outcome, url: str, tries: int) -> None:
        self.tally.retries += 1
        clock = self._directory.clock
        parked = self._directory.gate.observe(self._lane, outcome) - clock.now()
        seconds = max(parked, outcome.wait or 0.0, _RETRY.delay(url, tries))
        was_answered = outcome.reason not in (*_SILENT, Reason.TIMEOUT)
        why = f"{outcome.reason}: {outcome.detail}"
        self._directory.on_wait(Wait(self._directory.url, why, was_answered, seconds))
        await clock.sleep(seconds)
