"""What a server may make of a few bytes: how much is read, and where."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.repos.made_repos import DID, make_car
from trawlnet.atproto.dagcbor import encode
from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.crawlers.repos.visiting import packing, visit
from trawlnet.crawlers.repos.visiting.memory import MemoryBudget
from trawlnet.crawlers.repos.visiting.packing import (
    CarReading,
    PackOptions,
    PackRefused,
    RepoBlock,
    RepoOwner,
    most_room,
    pack_options,
    read_car,
    room_at_once,
    usual_room,
)
from trawlnet.crawlers.repos.work import RepoVisit
from trawlnet.engine.outcome import Reason
from trawlnet.net.clock import SystemClock

WHOSE = RepoOwner(DID, "https://pds.example", "", 1_760_000_000_000_000)
MB = 1 << 20


@pytest.fixture(autouse=True)
def as_if_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain twin reads the same, and is never asked to on the loop."""
    monkeypatch.setattr(packing, "backend", lambda: "native")


def unsigned(**more: object) -> PackOptions:
    return pack_options(ReposConfig(verify="hashes", **more))  # type: ignore[arg-type]


def repeated(size: int, times: int) -> bytes:
    """One record of this size under so many keys."""
    record = encode({"text": "x" * size})
    return make_car({f"app.bsky.feed.post/3lscuqc5{number:05d}": record for number in range(times)})


def read(car: bytes, how: PackOptions, room: int) -> RepoBlock | PackRefused:
    found = read_car(CarReading(car, WHOSE, how, room))
    assert isinstance(found, RepoBlock | PackRefused)
    return found


def test_one_record_under_many_keys_is_refused_and_the_detail_says_which_limit() -> None:
    car, how = repeated(50_000, 1000), unsigned()
    assert len(car) < 200_000  # 50 MB of JSON.
    found = read(car, how, most_room(car, how))
    assert isinstance(found, PackRefused) and not found.cramped
    assert found.reason is Reason.TOO_LARGE
    assert found.detail == (
        f"{len(car)} bytes become more than {4 * MB} of JSON and index (max_expansion is 16)"
    )
    generous = unsigned(max_expansion=1000)
    made = read(car, generous, most_room(car, generous))
    assert isinstance(made, RepoBlock) and made.records == 1000


def test_what_the_largest_repository_may_take_is_a_limit_of_its_own() -> None:
    car, how = repeated(50_000, 1500), unsigned(max_expansion=10_000, max_repo_size="1MB")
    found = read(car, how, most_room(car, how))
    assert isinstance(found, PackRefused) and not found.cramped
    assert found.detail.endswith("of JSON and index (three times max_repo_size)")


@pytest.mark.parametrize("size", [1, 1000, 64 << 10, 300_000, 5 * MB, 50 * MB, 100 * MB])
@pytest.mark.parametrize("expansion", [1, 2.5, 16, 10_000])
def test_rooms_grow_with_the_repository_and_never_beyond_the_most(
    size: int, expansion: float
) -> None:
    car, how = memoryview(bytes(size)), unsigned(max_expansion=expansion)
    most = most_room(car, how)
    assert 0 < usual_room(car, how) <= most <= how.options.memory_limit
    assert most <= max(4 * MB, expansion * size)
    at_once = room_at_once(car, how)
    assert (at_once is None) == (size > 64 << 10)
    assert at_once is None or at_once <= min(most, 256 << 10)


def test_little_is_read_on_the_event_loop_and_nothing_that_takes_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    car = repeated(2000, 300)
    assert len(car) < 64 << 10
    assert room_at_once(car, unsigned(zstd_level=6)) is not None
    assert room_at_once(car, unsigned(zstd_level=7)) is None
    room = room_at_once(car, unsigned())
    assert room is not None
    found = read(car, unsigned(), room)
    assert isinstance(found, PackRefused) and found.cramped
    monkeypatch.setattr(packing, "backend", lambda: "plain")
    assert room_at_once(car, unsigned()) is None


@pytest.mark.parametrize(
    ("size", "level", "on_the_loop"),
    [
        (20, 3, [True]),  # Ordinary.
        (2000, 3, [True, False]),  # It takes more than is read there, and goes on elsewhere.
        (20, 19, [False]),  # Compressing takes long, however small it is.
    ],
)
def test_a_visit_reads_on_the_loop_what_is_over_in_an_instant(
    size: int, level: int, on_the_loop: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    car, how = repeated(size, 300), unsigned(zstd_level=level)
    seen: list[tuple[bool, int]] = []
    mine = threading.get_ident()

    def watched(reading: CarReading) -> object:
        seen.append((threading.get_ident() == mine, reading.room))
        return read_car(reading)

    monkeypatch.setattr(visit, "read_car", watched)

    async def main() -> object:
        budget = MemoryBudget(1 << 30)
        with ThreadPoolExecutor(1) as pool:
            parts: dict[str, Any] = dict.fromkeys(visit.Visitor.__slots__)
            visitor = visit.Visitor(
                **parts | {"pool": pool, "packing": how, "clock": SystemClock()}
            )
            return await visitor._make(car, RepoVisit(DID, WHOSE.pds), budget.ticket())

    made = asyncio.run(main())
    assert isinstance(made, RepoBlock) and made.records == 300
    assert [here for here, _ in seen] == on_the_loop
    assert all(room <= 4 * len(car) for here, room in seen if here)
    assert all(room <= most_room(car, how) for _, room in seen)
