"""CAR version 1: a header with roots, then blocks, each behind its CID."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trawlnet.atproto.cid import Cid, read_cid
from trawlnet.atproto.dagcbor import encode
from trawlnet.atproto.varint import encode_varint, read_varint
from trawlnet.malformed import Malformed
from trawlnet.sim.repository.cbor_decoder import decode


class CarBlock(NamedTuple):
    cid: Cid
    data: bytes


class CarFrame(NamedTuple):
    """Where one block lies in a CAR: data[start:end] is the block, `at` the frame's first byte."""

    cid: Cid
    at: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class CarHeader:
    roots: Sequence[Cid]
    end: int  # Where the first frame starts.


def write_car(roots: Sequence[Cid], blocks: Iterable[CarBlock]) -> bytes:
    return b"".join([car_header(roots), *[car_frame(cid, data) for cid, data in blocks]])


def car_header(roots: Sequence[Cid]) -> bytes:
    header = encode({"version": 1, "roots": list(roots)})
    return encode_varint(len(header)) + header


def car_frame(cid: Cid, data: bytes) -> bytes:
    return encode_varint(len(cid.raw) + len(data)) + cid.raw + data


def read_header(car: bytes) -> CarHeader:
    size, start = read_varint(car, 0)
    end = start + size
    if end > len(car):
        raise Malformed("CAR header is cut off")
    header = decode(car[start:end])
    if not isinstance(header, dict) or header.get("version") != 1:
        raise Malformed("CAR header is not of version 1")
    roots = header.get("roots")
    if not isinstance(roots, list) or not all(isinstance(root, Cid) for root in roots):
        raise Malformed("CAR header has no list of roots")
    return CarHeader(roots, end)


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
