"""A writer of deltas and a compaction for the nursery, and a writer that breaks a rule."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tests.support.repos.living import LivingRepo, did_of, pack
from trawlnet.archive.compact import compact
from trawlnet.archive.format.folding import ArchivedState, make_delta
from trawlnet.archive.sink import SegmentSink
from trawlnet.crawlers.repos.catalogue import ArchiveCatalogue
from trawlnet.crawlers.repos.sink import ArchiveSink
from trawlnet.net.clock import SystemClock
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.observe.metrics.repos import RepoMeter
from trawlnet.stores.lmdb.notes import open_notes

REPOS = 4
STEPS = 60  # Of each repository.
SEGMENT_BYTES = 6_000


def lives() -> list[LivingRepo]:
    return [LivingRepo(n, 4, did_of(n)) for n in range(REPOS)]


def acknowledged(folder: Path) -> list[int]:
    """How many steps of each repository are durable, as its writer was told."""
    path = folder / "acknowledged"
    found = [0] * REPOS
    for line in path.read_text().splitlines(keepends=True) if path.exists() else ():
        if line.endswith("\n"):
            number, steps = map(int, line.split())
            found[number] = steps
    return found


class Story:
    """One repository from its full block on, commit by commit."""

    def __init__(self, life: LivingRepo, done: int) -> None:
        self.life = life
        self.done = done
        for _ in range(done - 1):
            life.change()

    def batch(self, most: int) -> bytes:
        """The next commits as one block; the very first is a full block."""
        if not self.done:
            self.done = 1
            return self.life.full
        since = self.life.rev
        parts = [self.life.change() for _ in range(most)]
        self.done += most
        return pack(joined(self.life, since, parts))


def joined(life: LivingRepo, since: str, parts: list[ArchivedState]) -> ArchivedState:
    """Several commits as one delta."""
    changed: dict[str, bytes] = {}
    deleted: set[str] = set()
    for one in parts:
        for path in (*one.records, *one.left_out):
            changed[path.decode()] = life.past[one.rev][path.decode()]
            deleted.discard(path.decode())
        for path in one.deleted:
            changed.pop(path.decode(), None)
            deleted.add(path.decode())
    last = parts[-1]
    return make_delta(
        (life.did, last.pds),
        (last.rev, last.crawled_at_us),
        (last.key, last.signature),
        since=since,
        changed=changed,
        deleted=deleted,
    )


def turns(folder: Path, dice: random.Random) -> Iterator[list[tuple[int, Story, int]]]:
    """Which repositories go on, and by how many commits: other ones after every kill."""
    stories = [Story(life, done) for life, done in zip(lives(), acknowledged(folder), strict=True)]
    while any(story.done < STEPS for story in stories):
        left = [(n, story) for n, story in enumerate(stories) if story.done < STEPS]
        some = dice.sample(left, dice.randint(1, len(left)))
        yield [(n, story, min(dice.randint(1, 3), STEPS - story.done)) for n, story in some]


async def follow(folder: Path, *, ack_first: bool = False, most: int = STEPS * REPOS) -> None:
    """As a follower writes: what is acknowledged is durable, and what is not is written again."""
    archive, clock = folder / "archive", SystemClock()
    segments = await SegmentSink.open(archive, time.time, SEGMENT_BYTES)
    notes = open_notes(folder / "notes")
    catalogue = ArchiveCatalogue(notes, archive, clock)
    sink = ArchiveSink(archive, segments, catalogue, RepoMeter(CrawlMetrics("repos", clock)))
    fd = os.open(folder / "acknowledged", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for some in islice(turns(folder, random.Random(os.getpid())), most):
        blocks = [story.batch(most) for _, story, most in some]
        revs = {story.life.did: story.life.rev for _, story, _ in some}
        lines = "".join(f"{n} {story.done}\n" for n, story, _ in some).encode()
        if ack_first:
            os.write(fd, lines)
            (folder / "exposed").touch()
            time.sleep(3600)
        await sink.append(blocks, revs)
        os.write(fd, lines)
    catalogue.close()
    notes.close()
    await segments.close()


async def begin(folder: Path) -> None:
    await follow(folder, most=10)


async def acknowledge_first(folder: Path) -> None:
    """Breaks "published only when archived"."""
    await follow(folder, ack_first=True)


async def fold(folder: Path) -> None:
    compact(folder / "archive", time.time)


ROLES = {"follow": follow, "begin": begin, "acknowledge_first": acknowledge_first, "fold": fold}
