"""Sorts a listing of any length: runs are sorted in memory, saved as files, and merged."""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import ExitStack
from operator import attrgetter
from tempfile import TemporaryFile
from typing import IO, Final

import msgspec

from trawlnet.engine.ports import Failure

_RUN: Final = 20_000  # Failures in memory at a time.
_FILES: Final = 64  # Open files at a time.
_by_key = attrgetter("key")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Failure).decode


async def by_key(failures: AsyncIterator[Failure], run: int = _RUN) -> AsyncIterator[Failure]:
    """The same failures in the order of their keys."""
    with ExitStack() as files:
        runs: list[IO[bytes]] = []
        some: list[Failure] = []
        async for failure in failures:
            some.append(failure)
            if len(some) == run:
                runs.append(_written(files, sorted(some, key=_by_key)))
                some = []
                if len(runs) == _FILES:
                    runs = [_written(files, _merged(runs))]
        for failure in heapq.merge(*map(_read, runs), sorted(some, key=_by_key), key=_by_key):
            yield failure


def _written(files: ExitStack, failures: Iterable[Failure]) -> IO[bytes]:
    file = TemporaryFile(prefix="trawlnet-")  # noqa: SIM115 - `files` closes it.
    files.push(file)
    file.writelines(_encode(failure) + b"\n" for failure in failures)
    return file


def _merged(runs: list[IO[bytes]]) -> Iterator[Failure]:
    yield from heapq.merge(*map(_read, runs), key=_by_key)
    for file in runs:
        file.close()


def _read(file: IO[bytes]) -> Iterator[Failure]:
    file.seek(0)
    return map(_decode, file)
