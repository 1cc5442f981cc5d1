"""One slice of a scan: its steps are tasks of the engine, and it knows when it is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from trawlnet.crawlers.pds.scanning.asking import ScanClient
from trawlnet.crawlers.pds.scanning.ending import (
    LOST,
    MADE_ROOM,
    SHORT_PAUSE,
    SliceEnd,
    TablesAway,
    cut_short,
    failed,
    put_off,
)
from trawlnet.crawlers.pds.scanning.items import ScanItem
from trawlnet.crawlers.pds.scanning.parts import ScanCounts, ScanParts, ScanResult, ScanVerdict
from trawlnet.crawlers.pds.scanning.state import Scan
from trawlnet.crawlers.pds.scanning.steps import StepKind, do_step, first_step, next_step
from trawlnet.crawlers.pds.scanning.writing import save, write
from trawlnet.engine.outcome import Again, Outcome, Reason, Receipt
from trawlnet.engine.task import Task
from trawlnet.net.lane import lane_of
from trawlnet.tables.errors import LeaseLost
from trawlnet.tables.scanned.rows import Held, ScanKey
from trawlnet.webpage.origin import canonical_origin

Payload = Mapping[str, str]

_STATUSES = {
    ScanVerdict.COMPLETE: "success",
    ScanVerdict.PARTIAL: "partial",
    ScanVerdict.PUT_OFF: "put_off",
    ScanVerdict.FAILED: "error",
}


class ScanSlice:
    """From where the last one stopped until the instant `deadline`, or of one account.

    `lease` is the owner of the claim on the PDS: once it is another's, nothing more is written.
    """

    def __init__(
        self, parts: ScanParts, pds_url: str, lease: str, deadline: float, account: str = ""
    ) -> None:
        self._parts = parts
        self._begun = parts.clock.now()
        origin = canonical_origin(pds_url, allow_private=parts.allow_private)
        self._refused = origin.refused
        self.lane = lane_of(origin.url) if origin.url else ""
        client = ScanClient(parts, self.lane, deadline, deadline - self._begun)
        key = ScanKey(origin.url, parts.routes.scope, lease)
        self._scan = Scan(parts, key, client, parts.routes.names, account)
        self._step: StepKind | SliceEnd = StepKind.LIST
        self._wait = 0.0  # What the server asked for.
        self._cut: SliceEnd | None = None  # The registry is another's, or away.
        self._is_look = False
        self._is_hurried = False

    def as_look(self, *, afresh: bool) -> ScanSlice:
        """One of many accounts: what the PDS has in all is not counted, and a document that we
        remember is good enough, unless it is to be asked for `afresh`."""
        self._is_look, self._scan.afresh = True, afresh
        return self

    def hurry(self) -> None:
        """Somebody else's turn comes after this step: the next slice goes on from there."""
        self._is_hurried = True

    def sent_away(self) -> ScanResult | None:
        """What it comes to if the server has asked us to stay away before."""
        step = self._in_time(StepKind.LIST, Reason.PARKED)
        return _result(self._scan, step) if isinstance(step, SliceEnd) else None

    async def begin(self) -> Payload | ScanResult:
        if not self.lane:
            return _result(None, failed(Reason.REFUSED, f"not a PDS to visit: {self._refused}"))
        try:
            self._step = await first_step(self._scan)
        except (LeaseLost, *TablesAway) as error:
            self._cut = self._step = cut_short(error)
        return await self._next_step()

    async def do(self, task: Task) -> Outcome[SliceEnd]:
        """One step, as the handler of the engine."""
        scan, step = self._scan, StepKind(task.payload["step"])
        tries = task.attempt + task.waits + 1
        scan.client.is_last_try = tries >= self._parts.limits.tries
        stepped = await do_step(scan, step)
        outcome, end = stepped.outcome, stepped.end
        scan.client.before = outcome if stepped.is_tried_again else None
        self._wait = outcome.wait or 0.0
        if stepped.is_tried_again:
            return outcome
        if end is None:
            return Outcome(
                outcome.reason,
                stepped.items,
                wait=outcome.wait,
                detail=outcome.detail,
                again=Again.AT_ONCE,
            )
        return Outcome(
            end.reason,
            stepped.items,
            wait=outcome.wait,
            detail=end.detail,
            again=Again.NEVER,
            news=end,
        )

    async def write(self, items: Sequence[ScanItem]) -> None:
        """The items of a step, as the sink of the engine. What cannot be written ends the slice:
        the next one asks for it again."""
        try:
            await write(self._scan, items)
        except (LeaseLost, *TablesAway) as error:
            self._cut = cut_short(error)

    async def advance(self, receipt: Receipt[SliceEnd]) -> Payload | ScanResult:
        """The next step, or what the slice came to."""
        try:
            self._step = self._cut or await self._after(receipt)
        except (LeaseLost, *TablesAway) as error:
            self._cut = self._step = cut_short(error)
        return await self._next_step()

    async def rest(self) -> None:
        """It is stopped in the middle: nobody should have to ask again what was answered. Raises
        LeaseLost, TablesError."""
        if self._cut is None and (self._scan.done or self._scan.under_way is not None):
            await save(self._scan)

    async def _after(self, receipt: Receipt[SliceEnd]) -> StepKind | SliceEnd:
        if receipt.news is not None:
            return receipt.news
        if receipt.next is None:
            return self._sent_away(receipt.reason)
        step = await next_step(self._scan) if receipt.is_step else self._step
        if self._is_hurried and receipt.is_step and not isinstance(step, SliceEnd):
            return MADE_ROOM
        return step if isinstance(step, SliceEnd) else self._in_time(step, receipt.reason)

    def _in_time(self, step: StepKind, reason: Reason) -> StepKind | SliceEnd:
        """The step, if the gate lets it begin while there is time for it."""
        gate, client = self._parts.gate, self._scan.client
        now, lane = self._scan.now, self.lane
        wait, left = gate.parked(lane) - now, client.deadline - now
        if wait > min(SHORT_PAUSE, left):
            self._wait = max(wait, self._wait)
            return self._sent_away(reason)
        return client.out_of_time() if max(gate.ready_at(lane) - now, 0.0) >= left else step

    def _sent_away(self, reason: Reason) -> SliceEnd:
        if reason is Reason.RATE_LIMITED:
            return put_off(reason, "it asked us to slow down", self._wait)
        return put_off(
            Reason.PARKED, "it asked for a pause earlier, which is not over", max(self._wait, 1.0)
        )

    async def _next_step(self) -> Payload | ScanResult:
        if not isinstance(self._step, SliceEnd):
            repo = self._scan.open
            return {"step": str(self._step)} | ({"did": repo.reading.did} if repo else {})
        try:
            return await self._ended(self._step)
        except (LeaseLost, *TablesAway) as error:
            return self._metered(_result(self._scan, cut_short(error)))

    async def _ended(self, end: SliceEnd) -> ScanResult:
        scan, tables = self._scan, self._parts.tables
        if self._cut is not None:
            return self._metered(_result(scan, end))
        if not scan.is_over:
            await save(scan)
        is_whole = end.verdict is ScanVerdict.COMPLETE or scan.account
        left = 0 if is_whole else await tables.left(scan.key)
        held = scan.held or (Held() if self._is_look else await tables.held(scan.pds))
        return self._metered(replace(_result(scan, end, held), left=left))

    def _metered(self, result: ScanResult) -> ScanResult:
        if self._parts.meter is not None and not self._scan.account:
            seconds = self._parts.clock.now() - self._begun
            self._parts.meter.scan_ended(_STATUSES[result.verdict], seconds)
        return result


def _result(scan: Scan | None, end: SliceEnd, held: Held | None = None) -> ScanResult:
    held = held or Held()
    wants = scan.parts.routes.wants if scan else bool
    wanted = {name: count for name, count in held.records.items() if wants(name)}
    return ScanResult(
        verdict=end.verdict,
        reason=end.reason,
        detail=end.detail,
        again_in=end.again_in,
        tally=scan.tally if scan else ScanCounts(),
        requests=scan.client.requests if scan else 0,
        lookups=scan.lookups if scan else 0,
        repos=scan.read if scan else 0,
        held=wanted,
        indexed_held=sum(held.indexed[name] for name in wanted),
        scope=scan.key.scope.digest if scan else "",
        all_held=sum(held.records.values()),
        all_indexed=sum(held.indexed.values()),
        error=end.error,
    )


LOST_CLAIM = _result(None, LOST)  # Of a row that others took over before it was begun.
ALL_LOOKED_AT = _result(None, SliceEnd(ScanVerdict.COMPLETE, Reason.OK))
