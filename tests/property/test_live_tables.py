"""Events, kills, lost events and replays in any order: the table is what a dict says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.support.repos.archive_rows import block_of, write_segment
from trawlnet.archive.tombstones import Tombstone, append_tombstones
from trawlnet.crawlers.repos.events.event import AccountEvent, RecordEvent, RepoEvent
from trawlnet.crawlers.repos.events.event_log import EventLog, EventReader
from trawlnet.crawlers.repos.replay.live_tables import LiveTables
from trawlnet.crawlers.repos.replay.reading import CollectionFilter
from trawlnet.crawlers.repos.replay.replay import Replay
from trawlnet.net.clock import SystemClock
from trawlnet.tables.clickhouse.live_records import save_live_position
from trawlnet.tables.clickhouse.open import opened
from trawlnet.tables.clickhouse.ports import Query, Tables

CURRENT = Query("current", "SELECT repo, collection, rkey, record_json FROM repo_records FINAL")
DIDS = [f"did:plc:{letter * 24}" for letter in "ab"]
COLLECTIONS = ["app.bsky.feed.post", "blue.x.y"]
START = 1_800_000_000.0


@dataclass
class World:
    """Archives first and tells of it afterwards, as a follower does."""

    folder: Path
    log: EventLog
    now: Callable[[], float]
    truth: dict[str, dict[tuple[str, str], bytes]] = field(default_factory=dict)
    segments: int = 0

    async def change(self, did: str, place: tuple[str, str], text: bytes | None) -> None:
        repo = self.truth.setdefault(did, {})
        word = "delete" if text is None else "update" if place in repo else "create"
        if text is None:
            if repo.pop(place, None) is None:
                return
        else:
            repo[place] = text
        self.archive(did)
        cid = None if text is None else "bafy"
        await self.log.append([RecordEvent(did, "3k", word, *place, cid, text)])

    async def leave(self, did: str) -> None:
        if self.truth.pop(did, None) is not None:
            at_us = int(self.now() * 1e6)
            append_tombstones(self.folder / "archive", [Tombstone(did, "deactivated", at_us)])
            await self.log.append([AccountEvent(did, False, "deactivated", 1, "")])

    async def come_back(self, did: str, repo: dict[tuple[str, str], bytes]) -> None:
        if did in self.truth:
            return
        self.truth[did] = dict(repo)
        self.archive(did)
        events: list[RepoEvent] = [AccountEvent(did, True, None, 2, "")]
        events += [RecordEvent(did, "3k", "create", *p, "bafy", text) for p, text in repo.items()]
        await self.log.append(events)

    def archive(self, did: str) -> None:
        collections: dict[str, list[tuple[str, bytes]]] = {}
        for (name, rkey), text in sorted(self.truth[did].items()):
            collections.setdefault(name, []).append((rkey, text))
        self.segments += 1
        block = block_of(did, collections, int(self.now() * 1e6))
        write_segment(self.folder / f"archive/segment_{self.segments:04}.rca", [(did, block)])

    def rows(self) -> list[list[str]]:
        return sorted(
            [did, *place, text.decode()]
            for did, repo in self.truth.items()
            for place, text in repo.items()
        )


dids, places = st.sampled_from(DIDS), st.tuples(st.sampled_from(COLLECTIONS), st.sampled_from("xy"))
texts = st.integers(0, 9).map(lambda n: json.dumps({"n": n}).encode())
steps = st.one_of(
    st.tuples(st.just("change"), dids, places, st.none() | texts),
    st.tuples(st.just("change"), dids, places, st.none() | texts),
    st.tuples(st.just("leave"), dids),
    st.tuples(st.just("come_back"), dids, st.dictionaries(places, texts, max_size=2)),
    st.tuples(st.sampled_from(["apply", "killed before it saved", "lose", "replay"])),
    st.tuples(st.just("replay"), st.sampled_from(COLLECTIONS)),
)


# A failure is shown as it was drawn: opening tables anew thousands of times takes too long.
@pytest.mark.slow
@settings(max_examples=12, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(story=st.lists(steps, min_size=4, max_size=14))
def test_the_table_is_the_truth_whatever_happens_in_between(story):
    with TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder), story))


async def run(folder: Path, story: list[tuple]) -> None:
    ticks = iter(range(1 << 30))

    def now() -> float:
        return START + next(ticks)

    (folder / "archive").mkdir()  # As every crawl finds it, also one that has written nothing.
    log = await EventLog.open(folder, now)
    world, reader = World(folder, log, now), EventReader(folder)
    async with opened(folder / "tables") as tables:
        live = LiveTables(tables, reader, folder / "archive", SystemClock())
        for name, *arguments in story:
            if hasattr(world, name):
                await getattr(world, name)(*arguments)
                continue
            at = await live.begin()
            if name == "apply":
                await live.go_on(at)
            elif name == "lose":
                # As if all that was not read had been deleted meanwhile.
                await live.start_over()
            elif name == "replay":
                await replay(tables, folder / "archive", tuple(arguments))
            else:
                await live.go_on(at)
                await rewind(tables, live, at)
        at = await live.begin()
        await live.go_on(at)
        found = await tables.rows(CURRENT)
        assert sorted(found) == world.rows()
    await log.close()


async def replay(tables: Tables, archive: Path, globs: tuple[str, ...]) -> None:
    if any(archive.glob("*.rca")):
        await Replay(tables, CollectionFilter(globs), asyncio.Event()).run(archive, 1)


async def rewind(tables: Tables, live: LiveTables, at: object) -> None:
    """The position as it was before the last events: they come again."""
    segment, offset = at  # type: ignore[misc]
    await tables.run(Query("forget", "TRUNCATE TABLE mirror_cursors"))
    await save_live_position(tables, segment << 40 | offset)
