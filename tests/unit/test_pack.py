"""Several repositories from CAR to block in one call: as one by one, each with its own verdict."""

from __future__ import annotations

import threading
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tests.support.repos.extractors import HAS_NATIVE, needs_native
from tests.support.repos.made_repos import DID, REV, make_car, make_record
from trawlnet.archive.format import rca, repoblock, repoblock_plain
from trawlnet.archive.format.content import (
    ExtractOptions,
    Packed,
    PackJob,
    RepoError,
    RepoErrorKind,
)
from trawlnet.native import loader

MIB = 1 << 20
OPTIONS = ExtractOptions()
AT_ONCE = getattr(loader.native, "PACKED_AT_ONCE", 0)  # None is needed without it.


@pytest.fixture(params=["plain", "native"] if HAS_NATIVE else ["plain"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "plain":
        monkeypatch.setattr(repoblock, "_Encoder", None)
        monkeypatch.setattr(repoblock, "_native", None)
    return str(request.param)


def job(car: bytes, room: int = 64 * MIB, pds: str = "https://p.example") -> PackJob:
    return PackJob(car, room, pds, 7)


def some_car(seed: int, size: int = 40) -> bytes:
    """Collections in no order: paths sort by collection, patterns may leave some out."""
    dice = Random(seed)
    names = ["z.b.c", "a.b.c", "a.b.cc", "app.bsky.feed.post", "app.bsky.feed.like"]
    return make_car({f"{dice.choice(names)}/{n}": make_record(dice) for n in range(size)})


def apart(one: PackJob, options: ExtractOptions = OPTIONS, level: int = 3) -> object:
    """What plain code says of it."""
    try:
        content = repoblock_plain.extract(one.car, replace(options, memory_limit=one.memory_limit))
    except RepoError as error:
        return error.kind  # What it says of it, and where, may differ.
    block = repoblock_plain.encode_content(content, one.pds, one.crawled_at_us, level)
    facts = (content.did, content.rev, content.unsigned_commit, content.signature)
    return Packed(*facts, content.records, len(content.collections), content.dropped, block)


def comparable(result: object) -> object:
    return result.kind if isinstance(result, RepoError) else result


@pytest.mark.parametrize("level", [1, 3, 9])
def test_each_is_packed_as_if_it_were_alone(backend: str, level: int) -> None:
    cars = [some_car(n, size) for n, size in enumerate((0, 1, 40, 700, 3, 200))]
    jobs = [job(car, pds=f"https://p{n}.example") for n, car in enumerate(cars)]
    packed = repoblock.pack(jobs, OPTIONS, level)
    assert packed == [apart(one, level=level) for one in jobs]
    assert packed == [repoblock.pack([one], OPTIONS, level)[0] for one in jobs]
    for one, car in zip(packed, (0, 1, 40, 700, 3, 200), strict=True):
        assert isinstance(one, Packed)
        head = rca.check_block(one.block)
        names = [entry.name for entry in head.collections]
        assert names == sorted(names)
        assert (one.did, one.rev, one.records, one.collections) == (DID, REV, car, len(names))


def test_a_bad_one_costs_itself_alone(backend: str) -> None:
    good, large = some_car(1), some_car(2, 900)
    jobs = [
        job(good),
        job(good[:-3]),
        job(large, room=20_000),
        job(b""),
        job(good.replace(b"app.bsky", b"app.bsxy")),
        job(large),
    ]
    packed = [comparable(one) for one in repoblock.pack(jobs, OPTIONS, 3)]
    assert packed == [apart(one) for one in jobs]
    assert [None if isinstance(one, Packed) else one for one in packed] == [
        None,
        RepoErrorKind.TRUNCATED,
        RepoErrorKind.OVER_LIMIT,
        RepoErrorKind.TRUNCATED,
        RepoErrorKind.HASH_MISMATCH,
        None,
    ]


@pytest.mark.parametrize("seed", range(40))
def test_damage_is_judged_as_plain_code_does(backend: str, seed: int) -> None:
    dice = Random(seed)
    cars = []
    for number in range(8):
        car = bytearray(some_car(seed * 100 + number, dice.randrange(60)))
        for _ in range(dice.randrange(3)):
            car[dice.randrange(len(car))] = dice.randrange(256)
        cars.append(bytes(car[: dice.randrange(len(car))] if dice.random() < 0.2 else car))
    options = ExtractOptions(
        verify_hashes=dice.random() < 0.5,
        keep_cids=dice.random() < 0.5,
        collections=("a.b.*",) if dice.random() < 0.3 else (),
    )
    jobs = [job(car, room=dice.choice([3_000, 64 * MIB])) for car in cars]
    packed = [comparable(one) for one in repoblock.pack(jobs, options, 3)]
    assert packed == [apart(one, options) for one in jobs]


def test_what_the_format_cannot_hold_is_told_apart(backend: str) -> None:
    car = some_car(1)
    jobs = [job(car, pds="p" * 65_536), job(car)]
    refused, packed = repoblock.pack(jobs, OPTIONS, 3)
    assert isinstance(refused, ValueError)
    assert "format counts" in str(refused)
    assert packed == apart(jobs[1])


def test_records_left_out_are_counted(backend: str) -> None:
    car = make_car({"a.b.c/x": make_record(Random(1)), "bad/x": make_record(Random(2))})
    (packed,) = repoblock.pack([job(car)], OPTIONS, 3)
    assert isinstance(packed, Packed)
    assert {str(reason): count for reason, count in packed.dropped.items()} == {"bad_collection": 1}


@needs_native
@pytest.mark.parametrize(
    "jobs",
    [
        ((b"", 1, "pds"),),
        ((b"", 1, "pds", 0),),
        ((b"", -1, "pds", 0, b""),),
        (("text", 1, "pds", 0, b""),),
        ((b"", 1, b"pds", 0, b""),),
        ((b"", 1, "\ud800", 0, b""),),
        ((b"", 1, "pds", 0, b"short"),),
        ((b"", 1, "pds", 0, "text"),),
        (7,),
        tuple((b"", 1, "", 0, b"") for _ in range(AT_ONCE + 1)),
    ],
)
def test_misshapen_jobs_are_an_error_and_the_encoder_goes_on(jobs: Any) -> None:
    encoder = loader.block_encoder()(3)
    good = (some_car(1), MIB, "", 0, b"")
    with pytest.raises((TypeError, ValueError)):
        encoder.pack(True, False, False, (), MIB, MIB, jobs)
    with pytest.raises((TypeError, ValueError)):
        encoder.pack(True, False, False, (), MIB, MIB, (good, *jobs))
    with pytest.raises((TypeError, ValueError)):
        encoder.pack(True, False, False, (), -1, MIB, (good,))
    with pytest.raises(TypeError):
        encoder.pack(True, False, False, (), MIB, MIB, [good])
    assert encoder.pack(True, False, False, (), MIB, MIB, ()) == []
    assert encoder.pack(True, False, False, (), MIB, MIB, (good,) * AT_ONCE)[-1][0] == 0


@needs_native
def test_an_encoder_packs_for_one_thread_at_a_time() -> None:
    encoder = loader.block_encoder()(19)
    good = (some_car(3, 800), 64 * MIB, "", 0, b"")
    made: list[Any] = []
    worker = threading.Thread(
        target=lambda: made.append(encoder.pack(True, False, False, (), MIB, MIB, (good,) * 4))
    )
    worker.start()
    refused = 0
    while worker.is_alive() and not refused:
        try:
            encoder.pack(True, False, False, (), MIB, MIB, ())
        except ValueError as error:
            refused += "another thread" in str(error)
    worker.join()
    assert refused
    assert [one[0] for one in made[0]] == [0] * 4
