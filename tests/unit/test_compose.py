"""Composing: what is listed is what counts, each once, and nothing that counts is deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.fleet.run import dids_in_manifest
from tests.support.repos.made_segments import make_block
from trawlnet.archive.parts import part_bytes, path_of
from trawlnet.archive.segment_file import check
from trawlnet.fleet.compose import Composer
from trawlnet.net.clock import SystemClock
from trawlnet.storage.errors import SinkError
from trawlnet.storage.objects import FolderObjects


@dataclass
class Keys:
    """What Redis knows: which keys of each part count, and who owns something."""

    counted: dict[str, set[bytes]]
    tokens: set[str] = field(default_factory=set)
    lines: list[dict[str, Any]] = field(default_factory=list)
    quicker: bool = False  # Somebody else publishes every part first.

    async def composable(self) -> list[str]:
        return [part for part in sorted(self.counted) if part.partition(".")[0] not in self.tokens]

    async def parts(self) -> list[str]:
        return sorted(self.counted)

    async def owners(self) -> set[str]:
        return self.tokens

    async def placed(self, part: str) -> set[bytes]:
        return self.counted[part]

    async def next_segment(self) -> int:
        return len(self.lines) + 1

    async def manifest(self) -> list[dict[str, Any]]:
        return self.lines

    async def publish(self, parts: Sequence[str], line: Mapping[str, Any]) -> bool:
        for part in parts:
            del self.counted[part]
        if not self.quicker:
            self.lines.append(dict(line))
        return not self.quicker


def put(objects: FolderObjects, part: str, *dids: str) -> set[bytes]:
    objects.put(path_of(part), part_bytes([check(make_block(did)) for did in dids], 1))
    return {did.encode() for did in dids}


def composed(keys: Keys, folder: Path, everything: bool = True) -> Composer:
    composer = Composer(keys, FolderObjects(folder), SystemClock(), 1 << 20)  # type: ignore[arg-type]
    asyncio.run(composer.compose(everything=everything))
    return composer


def test_what_is_in_a_part_and_does_not_count_is_left_out(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path)
    put(objects, "s000-1.1", "did:plc:a", "did:plc:late")
    keys = Keys({"s000-1.1": {b"did:plc:a"}, "s001-2.1": put(objects, "s001-2.1", "did:plc:b")})
    composed(keys, tmp_path)
    assert dids_in_manifest(tmp_path) == {"did:plc:a": 1, "did:plc:b": 1}
    assert objects.sizes("parts") == {}


def test_a_part_that_lacks_what_counts_is_not_listed(tmp_path: Path) -> None:
    put(FolderObjects(tmp_path), "s000-1.1", "did:plc:a")
    keys = Keys({"s000-1.1": {b"did:plc:a", b"did:plc:b"}})
    with pytest.raises(SinkError, match=r"does not hold did:plc:b"):
        composed(keys, tmp_path)
    assert keys.lines == [] and list((tmp_path / "parts").iterdir())


def test_a_part_that_is_gone_is_no_crawl_that_is_done(tmp_path: Path) -> None:
    keys = Keys({"s000-1.1": {b"did:plc:a"}})
    composed(keys, tmp_path, everything=False)
    with pytest.raises(SinkError, match=r"is gone from .*: 1 repositories") as told:
        composed(keys, tmp_path)
    assert "put it back" in told.value.hint


def test_whoever_is_second_lists_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path)
    keys = Keys({"s000-1.1": put(objects, "s000-1.1", "did:plc:a")}, quicker=True)
    composed(keys, tmp_path)
    assert objects.sizes("manifest") == {} == objects.sizes("")


def test_only_what_counts_no_more_is_swept(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path)
    kept = {part: put(objects, part, f"did:plc:{part[3]}") for part in ("s000-1.1", "s001-2.1")}
    for part in ("s002-3.1", "s003-4.1"):
        put(objects, part, "did:plc:z")
    # Of the third nothing was settled, but its owner is still there; of the fourth nothing can be.
    composer = Composer(
        Keys(kept, tokens={"s002-3"}, lines=[{"parts": ["s001-2.1"]}]),  # type: ignore[arg-type]
        objects,
        SystemClock(),
        1,
    )
    assert asyncio.run(composer.sweep()) == 2
    assert set(objects.sizes("parts")) == {"s000-1.1.rca", "s002-3.1.rca"}
