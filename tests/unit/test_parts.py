"""Results gather in parts; parts are put, settled, and composed into segments."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.support.repos.made_segments import dids_in, make_block
from trawlnet.archive.parts import BLOCKS, kept_of, segment_pieces
from trawlnet.archive.verify import verify_segment
from trawlnet.engine.task import Task
from trawlnet.fleet.compose import groups
from trawlnet.sim.virtual import SimClock, run_sim
from trawlnet.storage.errors import SinkError, SinkUnreachable
from trawlnet.storage.objects import FolderObjects
from trawlnet.storage.part_sink import PartLimits, PartSink
from trawlnet.storage.s3 import ObjectsError
from trawlnet.stores.errors import Fenced

DIDS = [f"did:plc:{letter * 24}" for letter in "abcdef"]


def batch(*dids: str) -> list[tuple[Task, list[bytes]]]:
    return [(Task(did, "pds"), [make_block(did)]) for did in dids]


async def _may() -> None:
    return


def sink_in(folder: Path, size: int = 1 << 20, age: float = 30.0, may: Any = _may) -> PartSink:
    return PartSink(FolderObjects(folder), "s001-7", SimClock(), PartLimits(size, age), may, BLOCKS)


def parts_in(folder: Path) -> dict[str, list[str]]:
    found = sorted((folder / "parts").glob("*.rca"))
    assert all(verify_segment(path).sound and verify_segment(path).finalised for path in found)
    return {path.stem: dids_in(path) if path.is_dir() else _dids(path) for path in found}


def _dids(path: Path) -> list[str]:
    from trawlnet.archive.reader import open_segment

    segment = open_segment(path)
    with segment.open() as fd:
        return [block.head.did for block in segment.blocks(fd, check=True)]


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_sim(main())


def test_a_part_is_put_when_it_is_old_enough(tmp_path: Path) -> None:
    async def main() -> None:
        sink = sink_in(tmp_path, age=30.0)
        first = asyncio.create_task(sink.write(batch(*DIDS[:2])))
        await asyncio.sleep(20.0)
        second = asyncio.create_task(sink.write(batch(DIDS[2])))
        await asyncio.sleep(9.9)
        assert not first.done() and not second.done() and parts_in(tmp_path) == {}
        await asyncio.gather(first, second)
        assert asyncio.get_running_loop().time() == pytest.approx(30.0)
        assert parts_in(tmp_path) == {"s001-7.000001": DIDS[:3]}
        await sink.close()

    run(main)


def test_a_part_is_put_when_it_is_large_enough(tmp_path: Path) -> None:
    async def main() -> None:
        sink = sink_in(tmp_path, size=2 * len(make_block(DIDS[0])))
        await sink.write(batch(*DIDS[:4]))
        assert asyncio.get_running_loop().time() == 0.0
        assert parts_in(tmp_path) == {"s001-7.000001": DIDS[:2], "s001-7.000002": DIDS[2:4]}
        await sink.close()

    run(main)


def test_in_a_hurry_nothing_waits(tmp_path: Path) -> None:
    async def main() -> None:
        sink = sink_in(tmp_path)
        sink.hurry()
        writing = asyncio.create_task(sink.write(batch(DIDS[0])))
        await asyncio.sleep(0.1)
        sink.hurry()
        await writing
        assert asyncio.get_running_loop().time() < 1.0
        await sink.write([])
        await sink.close()

    run(main)


def test_a_part_is_closed_when_all_of_it_is_settled(tmp_path: Path) -> None:
    async def main() -> None:
        sink = sink_in(tmp_path, age=1.0)
        await sink.write(batch(*DIDS[:3]))
        assert {sink.part_of(did) for did in DIDS[:3]} == {"s001-7.000001"}
        assert sink.part_of("somebody else") == ""
        assert sink.settled([DIDS[0], "somebody else"]) == []
        assert sink.settled(DIDS[1:3]) == ["s001-7.000001"]
        assert sink.part_of(DIDS[0]) == ""
        await sink.close()

    run(main)


def test_whoever_was_replaced_puts_nothing(tmp_path: Path) -> None:
    async def replaced() -> None:
        raise Fenced("replaced")

    async def main() -> None:
        sink = sink_in(tmp_path, age=1.0, may=replaced)
        with pytest.raises(Fenced):
            await sink.write(batch(DIDS[0]))
        assert parts_in(tmp_path) == {}
        await sink.close()

    run(main)


def test_everybody_who_waits_is_told_that_the_store_is_gone(tmp_path: Path, monkeypatch) -> None:
    def gone(*_: object) -> None:
        raise ObjectsError("s3://bucket: no answer", "start it")

    async def main() -> None:
        sink = sink_in(tmp_path, age=1.0)
        monkeypatch.setattr(FolderObjects, "put", gone)
        writes = [sink.write(batch(did)) for did in DIDS[:3]]
        troubles = await asyncio.gather(*writes, return_exceptions=True)
        assert [type(one) for one in troubles] == [SinkUnreachable] * 3
        await sink.close()

    run(main)


def put_parts(folder: Path) -> FolderObjects:
    async def main() -> None:
        sink = sink_in(folder, size=2 * len(make_block(DIDS[0])))
        await sink.write(batch(*DIDS))
        await sink.close()

    run_sim(main())
    return FolderObjects(folder)


def kept(objects: FolderObjects, dids: set[str]) -> list[Any]:
    sizes = objects.sizes("parts")
    keep = {did.encode() for did in dids}
    return [kept_of(objects, name[:-4], size, keep) for name, size in sorted(sizes.items())]


def test_a_segment_holds_exactly_what_is_kept_of_its_parts(tmp_path: Path) -> None:
    objects = put_parts(tmp_path)
    chosen = {DIDS[0], DIDS[3], DIDS[4], DIDS[5]}
    objects.put("segment_0001.rca", segment_pieces(objects, kept(objects, chosen), 7))
    path = tmp_path / "segment_0001.rca"
    verdict = verify_segment(path)
    assert verdict.sound and verdict.finalised and verdict.blocks == 4
    assert set(_dids(path)) == chosen


def test_a_segment_of_nothing_is_sound(tmp_path: Path) -> None:
    objects = put_parts(tmp_path)
    objects.put("segment_0001.rca", segment_pieces(objects, kept(objects, set()), 7))
    assert verify_segment(tmp_path / "segment_0001.rca").sound


@pytest.mark.parametrize("at", [0, 100, -40])
def test_a_damaged_part_is_not_composed(tmp_path: Path, at: int) -> None:
    objects = put_parts(tmp_path)
    path = sorted((tmp_path / "parts").iterdir())[0]
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(SinkError, match=path.name):
        found = kept(objects, set(DIDS))
        if len(found[0].entries) < 2:
            raise SinkError(f"{path.name} holds less than it should")
        objects.put("segment_0001.rca", segment_pieces(objects, found, 7))
    assert not (tmp_path / "segment_0001.rca").exists()


def test_parts_are_grouped_until_a_segment_is_full() -> None:
    sizes = {"a": 5, "b": 6, "c": 20, "d": 1}
    parts = ["a", "b", "gone", "c", "d"]
    assert list(groups(parts, sizes, 10, everything=False)) == [["a", "b"], ["c"]]
    assert list(groups(parts, sizes, 10, everything=True)) == [["a", "b"], ["c"], ["d"]]
