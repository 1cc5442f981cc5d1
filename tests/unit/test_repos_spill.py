"""Bodies past the memory limit: the same bytes from a file, the same reasons, nothing left over."""

from __future__ import annotations

import asyncio
import gzip
import os
import resource
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.net.clients import Visit, visit
from tests.support.net.hostile_server import Exchange, Script
from tests.support.repos.made_repos import DID, make_car
from trawlnet.archive.format import repoblock_plain
from trawlnet.archive.format.repoblock import Buffer, extract
from trawlnet.atproto.dagcbor import encode
from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.crawlers.repos.visiting.bodies import Bodies
from trawlnet.crawlers.repos.visiting.fetching import BodyRoom, fetch_repo
from trawlnet.crawlers.repos.visiting.memory import FIRST_BYTES, MemoryBudget
from trawlnet.crawlers.repos.visiting.packing import (
    CarReading,
    PackOptions,
    PackRefused,
    RepoBlock,
    RepoOwner,
    most_room,
    pack_options,
    read_car,
    usual_room,
)
from trawlnet.crawlers.repos.visiting.spill import Spills
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.net.client.answer import RequestLimits

HEAD = b"HTTP/1.1 200 OK\r\n"
NO_ROOM = 1
LIMITS = RequestLimits(total=30.0, wire=20 << 20, inflated=20 << 20)
WHOSE = RepoOwner(DID, "https://pds.example", "", 1_760_000_000_000_000)
TEXTS = {
    f"app.bsky.feed.post/3lscuqc52o{number:03d}": encode({"text": str(number) * 150_000})
    for number in range(10)
}
CAR = make_car(TEXTS, shuffle=1)


def unsigned(**more: object) -> PackOptions:
    return pack_options(ReposConfig(verify="hashes", **more))  # type: ignore[arg-type]


def fetched(
    script: Script, folder: Path, limit: int, limits: RequestLimits = LIMITS
) -> tuple[Buffer | Outcome, list[int]]:
    """What came of the body, and the sizes of what was spilled. Nothing stays behind."""
    told: list[int] = []
    budget = MemoryBudget(limit)

    async def act(one: Visit) -> Buffer | Outcome:
        spills, ticket = Spills(folder / "tmp", told.append), budget.ticket()
        try:
            room, pds = BodyRoom(ticket, spills, Bodies(0)), one.server.url("").rstrip("/")
            return await fetch_repo(one.http, pds, DID, "lane", limits, room)
        finally:
            ticket.close()
            spills.close()

    found = visit(script, act)
    assert budget.used == 0
    assert not (folder / "tmp").exists()
    return found, told


async def whole(exchange: Exchange) -> None:
    await exchange.answer(body=CAR)


async def zipped(exchange: Exchange) -> None:
    await exchange.answer(body=gzip.compress(CAR, 1), Content_Encoding="gzip")


async def cut(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"Content-Length: %d\r\n\r\n" % len(CAR), CAR[:-1])


async def zipped_and_cut(exchange: Exchange) -> None:
    body = gzip.compress(CAR[: len(CAR) // 2], 1)[:-8]
    await exchange.answer(body=body, Content_Encoding="gzip")


async def stalled(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"Content-Length: %d\r\n\r\n" % len(CAR), CAR[: len(CAR) // 2])
    await asyncio.sleep(60)


async def endless(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"\r\n", CAR, CAR)
    await asyncio.sleep(60)


@pytest.mark.parametrize("script", [whole, zipped])
def test_a_spilled_body_gives_the_same_block(script: Script, tmp_path: Path) -> None:
    kept, none = fetched(script, tmp_path, 1 << 30)
    spilled, sizes = fetched(script, tmp_path, NO_ROOM)
    assert not isinstance(kept, Outcome) and none == []
    assert isinstance(spilled, memoryview) and sizes == [len(CAR)]
    assert kept == spilled == CAR
    how = unsigned()
    one, other = (
        read_car(CarReading(car, WHOSE, how, usual_room(car, how))) for car in (kept, spilled)
    )
    assert isinstance(one, RepoBlock) and one == other
    assert one.records == len(TEXTS)


def test_the_plain_twin_reads_a_map_too(tmp_path: Path) -> None:
    spilled, _ = fetched(whole, tmp_path, NO_ROOM)
    assert not isinstance(spilled, Outcome)
    options = unsigned().options
    assert repoblock_plain.extract(spilled, options) == extract(CAR, options)


@pytest.mark.parametrize(
    ("script", "limits", "reason"),
    [
        (cut, LIMITS, Reason.TRUNCATED),
        (zipped_and_cut, LIMITS, Reason.TRUNCATED),
        (stalled, RequestLimits(total=0.5), Reason.TIMEOUT),
        (endless, RequestLimits(total=30.0, wire=len(CAR) + 1), Reason.TOO_LARGE),
        (zipped, RequestLimits(total=30.0, inflated=len(CAR) - 1), Reason.TOO_LARGE),
    ],
)
def test_trouble_keeps_its_reason(
    script: Script, limits: RequestLimits, reason: Reason, tmp_path: Path
) -> None:
    outcomes = [fetched(script, tmp_path, limit, limits)[0] for limit in (1 << 30, NO_ROOM)]
    assert all(isinstance(one, Outcome) for one in outcomes)
    assert [one.reason for one in outcomes if isinstance(one, Outcome)] == [reason, reason]


class SimAnswer:
    """A body in many pieces, which notes what memory is in use before the last one."""

    reason = Reason.OK
    announced = None

    def __init__(self) -> None:
        self.left = PIECES
        self.in_use = 0

    def __aiter__(self) -> SimAnswer:
        return self

    async def __anext__(self) -> bytes:
        if not self.left:
            raise StopAsyncIteration
        self.left -= 1
        if not self.left:
            self.in_use = tracemalloc.get_traced_memory()[0]
        return bytes(PIECE)


class SimGetter:
    def __init__(self) -> None:
        self.answer = SimAnswer()

    @asynccontextmanager
    async def stream(self, url: str, **_: object) -> AsyncIterator[SimAnswer]:
        yield self.answer


PIECE, PIECES = 64 << 10, 128


def test_what_was_spilled_is_no_longer_in_memory(tmp_path: Path) -> None:
    async def main() -> int:
        spills, http = Spills(tmp_path / "tmp", lambda size: None), SimGetter()
        # It has come to half of its size when it is told to leave.
        room = BodyRoom(MemoryBudget(PIECE * PIECES).ticket(), spills, Bodies(0))
        tracemalloc.start()
        try:
            found = await fetch_repo(http, "", DID, "lane", LIMITS, room)  # type: ignore[arg-type]
        finally:
            tracemalloc.stop()
            spills.close()
        assert isinstance(found, memoryview) and len(found) == PIECE * PIECES
        return http.answer.in_use

    assert asyncio.run(main()) < 4 * FIRST_BYTES


def test_small_bodies_stay_in_memory_however_full_it_is(tmp_path: Path) -> None:
    async def small(exchange: Exchange) -> None:
        await exchange.answer(body=CAR[:FIRST_BYTES])

    found, told = fetched(small, tmp_path, NO_ROOM)
    assert found == CAR[:FIRST_BYTES] and told == []


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_takes_no_more_is_our_trouble_and_tried_again(tmp_path: Path) -> None:
    with files_of_at_most(FIRST_BYTES * 2):
        found, told = fetched(whole, tmp_path, NO_ROOM)
    assert isinstance(found, Outcome) and told == []
    assert found.reason is Reason.NO_SPACE
    assert (found.reason.blame, found.reason.again, found.reason.answer) == ("us", "counted", False)
    assert found.wait and "disk" in found.detail


def test_another_error_of_the_disk_is_no_lack_of_space(tmp_path: Path) -> None:
    (tmp_path / "tmp").write_bytes(b"in the way")
    told: list[int] = []

    async def act(one: Visit) -> Buffer | Outcome:
        spills = Spills(tmp_path / "tmp", told.append)
        room, pds = (
            BodyRoom(MemoryBudget(NO_ROOM).ticket(), spills, Bodies(0)),
            one.server.url("").rstrip("/"),
        )
        found = await fetch_repo(one.http, pds, DID, "lane", LIMITS, room)
        spills.close()
        return found

    found = visit(whole, act)
    assert isinstance(found, Outcome) and found.reason is Reason.UNKNOWN
    assert (tmp_path / "tmp").read_bytes() == b"in the way"


@pytest.mark.parametrize("named", [False, True])
def test_a_file_has_no_name_while_it_is_used(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that nothing is left of a crawl that is killed."""
    if named:
        monkeypatch.delattr(os, "O_TMPFILE")
    elif not hasattr(os, "O_TMPFILE"):
        pytest.skip("this system has no files without a name")

    async def main() -> bytes:
        spills = Spills(tmp_path / "tmp", lambda size: None)
        async with spills.file() as file:
            await file.append(bytearray(b"some"))
            await file.append(bytearray(b"thing"))
            assert os.listdir(tmp_path / "tmp") == []
            mapped = file.mapped()
        spills.close()
        return bytes(mapped)  # The map outlasts file and folder.

    assert asyncio.run(main()) == b"something"


def test_what_a_kill_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    (folder / "spill-abc").write_bytes(b"left")
    (folder / "mine").write_bytes(b"kept")
    spills = Spills(folder, lambda size: None)
    spills.close()
    assert os.listdir(folder) == ["mine"]


def test_who_is_cancelled_while_writing_leaves_no_file_open(tmp_path: Path) -> None:
    async def main() -> None:
        spills = Spills(tmp_path / "tmp", lambda size: None)

        async def write() -> None:
            async with spills.file() as file:
                await file.append(bytearray(8 << 20))

        before = set(os.listdir("/proc/self/fd"))
        for _ in range(5):
            writing = asyncio.create_task(write())
            await asyncio.sleep(0)
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
        await asyncio.to_thread(spills.close)
        # The loop's own pipe and thread may open something; files of the folder do not stay.
        left = set(os.listdir("/proc/self/fd")) - before
        targets = [os.readlink(f"/proc/self/fd/{fd}") for fd in left if _is_open(fd)]
        assert not [target for target in targets if str(tmp_path) in target]

    asyncio.run(main())


def _is_open(fd: str) -> bool:
    return Path(f"/proc/self/fd/{fd}").is_symlink()


def test_what_was_made_to_take_much_memory_is_read_only_when_it_is_given_that() -> None:
    """One record under many keys: little to send, much to write."""
    text = encode({"text": "x" * 20_000})
    many = {f"app.bsky.feed.post/3lscuqc5{number:05d}": text for number in range(200)}
    car, how = make_car(many), unsigned(max_expansion=200)
    room = usual_room(car, how)
    cramped = read_car(CarReading(car, WHOSE, how, room))
    assert isinstance(cramped, PackRefused) and cramped.cramped
    made = read_car(CarReading(car, WHOSE, how, most_room(car, how)))
    assert isinstance(made, RepoBlock) and made.records == len(many)
    small = replace(how, options=replace(how.options, memory_limit=room))
    final = read_car(CarReading(car, WHOSE, small, room))
    assert isinstance(final, PackRefused) and not final.cramped
    assert final.reason is Reason.TOO_LARGE
