"""CAR version 1: a header with roots, then blocks, each behind its CID."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from trawlnet.atproto.cid import Cid, read_cid
from trawlnet.atproto.dagcbor import encode
from trawlnet.atproto.varint import encode_varint, read_varint
from trawlnet.malformed import Malformed


class CarBlock(NamedTuple):
    cid: Cid
    data: bytes


class CarFrame(NamedTuple):
    """Where one block lies in a CAR: data[start:end] is the block, `at` the frame's first byte."""

    cid: Cid
    at: int
    start: int
    end: int


def write_car(roots: Sequence[Cid], blocks: Iterable[CarBlock]) -> bytes:
    return b"".join([car_header(roots), *[car_frame(cid, data) for cid, data in blocks]])


def car_header(roots: Sequence[Cid]) -> bytes:
    header = encode({"version": 1, "roots": list(roots)})
    return encode_varint(len(header)) + header


def car_frame(cid: Cid, data: bytes) -> bytes:
    return encode_varint(len(cid.raw) + len(data)) + cid.raw + data


def header_end(car: bytes) -> int:
    """Where the first frame starts."""
    size, start = read_varint(car, 0)
    return start + size


def read_frames(car: bytes, at: int) -> Iterator[CarFrame]:
    """Every frame from `at` to the end; hashes are not checked here."""
    while at < len(car):
        size, start = read_varint(car, at)
        end = start + size
        if end > len(car):
            raise Malformed(f"CAR frame at {at} is cut off")
        cid, data_start = read_cid(car, start)
        if data_start > end:
            raise Malformed(f"CAR frame at {at} is shorter than its CID")
        yield CarFrame(cid, at, data_start, end)
        at = end
