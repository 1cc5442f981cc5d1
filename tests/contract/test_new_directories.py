"""Whoever opens durable state where there was none: every new name is synced in its directory
before anything is said to be kept, so that a power cut does not take the whole workspace."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from trawlnet.captures.blobs import BlobStore
from trawlnet.captures.records import RecordSink
from trawlnet.cli.common.workspace import create, locked
from trawlnet.stores.lmdb.notes import open_notes
from trawlnet.stores.lmdb.spans import SpanFile
from trawlnet.stores.open import open_store
from trawlnet.tables.relational.sqlite import open_sqlite


class Disk:
    """What would be left after a power cut: names that were synced in their directory since they
    were made. Only directories are watched when they are made; files are looked for at the end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[Path] = []
        self.synced: dict[Path, set[str]] = {}  # The names in a directory at its last sync.
        mkdir, fsync = os.mkdir, os.fsync

        def noting_mkdir(path: str, *rest: int, **more: int) -> None:
            mkdir(path, *rest, **more)
            self.made.append(Path(path).resolve())

        def noting_fsync(fd: int) -> None:
            fsync(fd)
            place = Path(os.readlink(f"/proc/self/fd/{fd}"))
            if place.is_dir():
                self.synced[place] = set(os.listdir(place))

        monkeypatch.setattr(os, "mkdir", noting_mkdir)
        monkeypatch.setattr(os, "fsync", noting_fsync)

    def lost(self) -> list[Path]:
        kept = [path for path in self.made if ".tmp" not in path.parent.parts]
        return [path for path in kept if path.name not in self.synced.get(path.parent, ())]

    def has(self, path: Path) -> bool:
        return path.name in self.synced.get(path.parent.resolve(), ())


async def lmdb_store(folder: Path) -> list[Path]:
    await (await open_store(folder)).close()
    return [folder / "data.mdb"]


async def spans(folder: Path) -> list[Path]:
    SpanFile(folder).close()
    return [folder / "data.mdb"]


async def notes(folder: Path) -> list[Path]:
    open_notes(folder).close()
    return []  # Notes can be lost.


async def sqlite(folder: Path) -> list[Path]:
    await (await open_sqlite(folder / "registry.db")).close()
    return [folder / "registry.db"]


async def workspace(folder: Path) -> list[Path]:
    with locked(create(folder, "repos")):
        return []


async def records(folder: Path) -> list[Path]:
    RecordSink(BlobStore(folder / "blobs"), folder / "rows" / "index.jsonl").close()
    return []


OPENED: list[Callable[[Path], Awaitable[list[Path]]]] = [
    *(lmdb_store, spans, notes, sqlite, workspace, records)
]


@pytest.mark.parametrize("opened", OPENED, ids=lambda one: one.__name__)
def test_a_power_cut_takes_no_directory_that_state_is_in(
    opened: Callable[[Path], Awaitable[list[Path]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = Disk(monkeypatch)
    files = asyncio.run(_run(opened, tmp_path / "new" / "net" / "state"))
    assert disk.made, "nothing was made, so nothing is shown"
    assert disk.lost() == []
    assert [path for path in files if not disk.has(path)] == []


async def _run(opened: Callable[[Path], Awaitable[list[Path]]], folder: Path) -> list[Path]:
    return await opened(folder)
