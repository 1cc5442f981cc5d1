"""A simulated id API with everything that can go wrong in half a minute, and what must be so."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from trawlnet.crawlers.ids.ledger.span_codec import mark_of
from trawlnet.crawlers.ids.model import LedgerMark
from trawlnet.sim.ids import Cap, CounterLeap, IdState, SimEmbargo, TimeSpan, Traffic
from trawlnet.stores.lmdb.spans import SpanFile

FIRST = 15_000_000_000
AGE = 8.0  # Seconds of history that the world has when it starts.
QUIET = 18.0  # The world's time from which on nothing more goes wrong.

TROUBLE = Traffic(
    seed=5,
    rate=60.0,
    wave=0.0,
    delay=0.3,
    delay_spread=0.2,
    late_share=0.02,
    late_spread=1.0,
    hole_share=0.004,
    old_share=0.01,
    raid_share=0.3,
    blemish_share=0.02,
    gaps=(CounterLeap(8.5, 3000),),
    stalls=(TimeSpan(10.0, 11.0),),
    outages=(TimeSpan(12.0, 13.0),),
    caps=(Cap(TimeSpan(14.0, 17.0), 80.0),),
    embargoes=(SimEmbargo(TimeSpan(2.0, 4.0), 18.0),),
)


def published(folder: Path, queue: str = "instance_store") -> list[int]:
    """Ids in the order of publishing, those of a torn last line left out."""
    ids = []
    for segment in sorted((folder / "spool" / queue).glob("*.jsonl")):
        for line in segment.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                row = json.loads(line)
                ids.append(row if isinstance(row, int) else row["instance"]["instance_id"])
    return ids


def marks(folder: Path) -> dict[int, LedgerMark]:
    """Every id of the ledger with its mark."""
    file = SpanFile(folder / "state" / "ids" / "ledger", readonly=True)
    try:
        return {
            number: mark_of(span.word)
            for span in file.spans()
            for number in range(span.start, span.end)
        }
    finally:
        file.close()


def wrongs(traffic: Traffic, folder: Path, until: float) -> dict[str, list[int]]:
    """What is not as it must be, of all ids that were handed out before this time."""
    known, stored = marks(folder), Counter(published(folder))
    found: dict[str, list[int]] = {"lost": [], "claimed": [], "unsettled": []}
    for number in range(FIRST, traffic.head(until) + 1):
        mark = known.get(number)
        match traffic.state(number, until + 60.0):
            case IdState.VISIBLE if mark is LedgerMark.EMBARGOED:
                pass  # The ledger has it, and it is looked at again now and then.
            case IdState.VISIBLE:
                if traffic.is_raid(number) and not stored[number]:
                    found["lost"].append(number)
                if mark is not LedgerMark.DONE:
                    found["unsettled"].append(number)
            case IdState.GAP | IdState.HOLE:
                # Without a mark it is pending: a gap is believed only when nothing came late.
                if mark is LedgerMark.DONE or stored[number]:
                    found["claimed"].append(number)
    return {word: numbers for word, numbers in found.items() if numbers}


def busiest_second(log: Path) -> int:
    """The most requests that came within one second for certain: a server that waits for the
    processor sees them late, and many at once."""
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    came = sorted((row["time"], row["since"]) for row in rows)
    start = most = 0
    for end, (time, _) in enumerate(came):
        while start <= end and came[start][1] <= time - 1.0:
            start += 1
        most = max(most, end - start + 1)
    return most


def config(base_url: str, **more: Any) -> dict[str, Any]:
    given = {"base_url": base_url, "target": FIRST, "buffer": 0, "max_rps": 400.0}
    return given | {"allow_private_hosts": True} | more
