"""`trawlnet ids gaps` and `missed`: lists the ids that were not fetched, from the ledger."""

from __future__ import annotations

import asyncio
import json as jsonlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

from trawlnet.cli.common.flags import Folder, Json, Most
from trawlnet.cli.common.sections import load_section
from trawlnet.cli.common.verb import READS, Verb
from trawlnet.cli.common.workspace import Workspace, find
from trawlnet.crawlers.ids.config import IdsConfig
from trawlnet.crawlers.ids.ledger.ledger import IdsLedger
from trawlnet.crawlers.ids.ledger.open_ledger import looked_at
from trawlnet.crawlers.ids.ledger.span_codec import mark_of, reason_of
from trawlnet.crawlers.ids.model import SKIPPED_MARKS, LedgerMark

Flags = Mapping[str, Any]


def gaps(*, workspace: Folder, limit: Most = None, json: Json = False, flags: Flags) -> int:
    """List skipped ranges of ids, with the reason; the end is exclusive."""
    return _show(_place(workspace, flags), limit, json, _gap_rows, _gap_line)


def missed(*, workspace: Folder, limit: Most = None, json: Json = False, flags: Flags) -> int:
    """List ids whose fetch failed; the crawl tries them again later."""
    return _show(_place(workspace, flags), limit, json, _missed_rows, _missed_line)


def _place(path: Path, flags: Flags) -> tuple[IdsConfig, Path]:
    """The config, and the state folder; a ledger on a server can be read from any machine."""
    here = Workspace(path, "ids")
    config = load_section(here, IdsConfig, flags).config
    return config, (here if config.redis_address else find(path, "ids", flags)).state


Rows = Callable[["IdsLedger"], AsyncIterator[dict[str, Any]]]


def _show(
    place: tuple[IdsConfig, Path],
    limit: int | None,
    as_json: bool,
    rows: Rows,
    line: Callable[..., str],
) -> int:
    async def run() -> None:
        async with looked_at(*place) as ledger:
            if ledger is None:
                return
            printed = 0
            async for row in rows(ledger):
                if printed == limit:
                    return
                printed += 1
                print(jsonlib.dumps(row) if as_json else line(**row))

    asyncio.run(run())
    return 0


async def _gap_rows(ledger: IdsLedger) -> AsyncIterator[dict[str, Any]]:
    for span in await ledger.marked(*SKIPPED_MARKS):
        row = {"start": span.start, "end": span.end, "reason": str(mark_of(span.word))}
        yield row | {"detail": reason_of(span.word)}


def _gap_line(start: int, end: int, reason: str, detail: str) -> str:
    return f"{start}  {end}  {end - start:>12,}  {reason}  {detail}".rstrip()


async def _missed_rows(ledger: IdsLedger) -> AsyncIterator[dict[str, Any]]:
    for span in await ledger.marked(LedgerMark.MISSED):
        for number in range(span.start, span.end):
            miss = ledger.misses[number]
            reason = reason_of(span.word) or str(LedgerMark.MISSED)
            yield {"id": number, "reason": reason, "detail": miss.detail, "rounds": miss.rounds}


def _missed_line(id: int, reason: str, detail: str, rounds: int) -> str:
    return f"{id}  {reason}  {detail}".rstrip()


_KEYS = ("store", "redis_address")
GAPS = Verb(gaps, "ids gaps -w ./net --json", READS, "ids", IdsConfig, _KEYS)
MISSED = Verb(missed, "ids missed -w ./net", READS, "ids", IdsConfig, _KEYS)
