"""Small repositories for tests: plain records, and one record for each thing that can be odd."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

from trawlnet.atproto.cid import cid_of
from trawlnet.atproto.dagcbor import encode, link
from trawlnet.sim.repository.repo import build_repo_of_blocks

DID = "did:plc:ewvi7nxzyoun6zhxrhs64oiz"
REV = "3lscuqc52or2x"
SOME_CID = cid_of(b"some block")
_LETTERS = "234567abcdefghijklmnopqrstuvwxyz"
_WORDS = (
    "the",
    "quick",
    "tide",
    "и снова",
    "海が静か",
    "🌊",
    "\n",
    '"so"',
    "\\",
    "seven grey stones",
)


class NoKey:
    """Signs with zeros: the extraction hands signatures on without judging them."""

    def sign(self, message: bytes) -> bytes:
        return bytes(64)


def make_car(
    records: Mapping[str, bytes], *, shuffle: int | None = None, duplicates: int = 0
) -> bytes:
    """The CAR of a repository whose records, by path, are the given CBOR."""
    order = None if shuffle is None else random.Random(shuffle)
    return build_repo_of_blocks(DID, records, NoKey(), REV).car(order, duplicates)


def make_record(rng: random.Random) -> bytes:
    did = "did:plc:" + "".join(rng.choices(_LETTERS, k=24))
    created = f"2025-0{rng.randrange(1, 10)}-11T07:{rng.randrange(10, 60)}:01.{rng.randrange(999)}Z"
    subject = {
        "cid": str(cid_of(rng.randbytes(8))),
        "uri": f"at://{did}/app.bsky.feed.post/3k{rng.randrange(10**9)}",
    }
    match rng.randrange(3):
        case 0:
            return encode({"$type": "app.bsky.feed.like", "subject": subject, "createdAt": created})
        case 1:
            return encode({"$type": "app.bsky.graph.follow", "subject": did, "createdAt": created})
        case _:
            blob = {
                "$type": "blob",
                "ref": cid_of(b"x", 0x55),
                "size": rng.randrange(1 << 20),
                "mimeType": "image/png",
            }
            return encode(
                {
                    "$type": "app.bsky.feed.post",
                    "text": " ".join(rng.choices(_WORDS, k=rng.randrange(40))),
                    "reply": {"root": subject, "parent": subject},
                    "embed": {
                        "$type": "app.bsky.embed.images",
                        "images": [{"alt": "", "image": blob}],
                    },
                    "langs": ["en"],
                    "createdAt": created,
                }
            )


def field(value: bytes) -> bytes:
    """A record {"v": value} around a value given in CBOR."""
    return b"\xa1\x61v" + value


def nested(levels: int) -> bytes:
    """A record whose containers are `levels` deep, itself included."""
    return b"\xa1\x61v" * (levels - 1) + b"\xa0"


def text(raw: bytes) -> bytes:
    return b"\x79" + len(raw).to_bytes(2, "big") + raw


def encode_unsorted(keys: Iterable[int]) -> bytes:
    """A map with these keys in this order."""
    entries = [encode(f"k{key}") + b"\xa1\x61v\x01" for key in keys]
    return b"\xb8" + bytes((len(entries),)) + b"".join(entries)


_V0 = b"\x12\x20" + bytes(32)
_STRONG = {"cid": "bafyrei", "uri": "at://x"}

# By path; the rkey says what is odd. Those whose rkey starts with "x-" must be dropped.
ODD_RECORDS: dict[str, bytes] = {
    f"org.example.odd/{name}": data
    for name, data in {
        "empty": b"\xa0",
        "wide-int": field(b"\x1b" + bytes(7) + b"\x05"),
        "int-max": field(b"\x1b" + b"\xff" * 8),
        "int-min": field(b"\x3b\x7f" + b"\xff" * 7),
        "x-int-below": field(b"\x3b\x80" + bytes(7)),
        "half": field(b"\xf9\x3c\x01"),
        "half-tiny": field(b"\xf9\x00\x01"),
        "half-nan": field(b"\xf9\x7e\x00"),
        "single": field(b"\xfa\x3d\xcc\xcc\xcd"),
        "double": field(b"\xfb\x3f\xb9\x99\x99\x99\x99\x99\x9a"),
        "double-zero": field(b"\xfb\x80" + bytes(7)),
        "double-inf": field(b"\xfb\xff\xf0" + bytes(6)),
        "double-big": field(b"\xfb\x43\x41\xc3\x79\x37\xe0\x80\x00"),
        "double-power": field(b"\xfb\x3d\x30" + bytes(6)),
        "double-least": field(b"\xfb" + bytes(7) + b"\x01"),
        "words": b"\xa3\x61a\xf4\x61b\xf5\x61c\xf6",
        "x-undefined": field(b"\xf7"),
        "x-simple": field(b"\xf8\xff"),
        "x-break": field(b"\xff"),
        "x-endless-text": field(b"\x7f\x61a\xff"),
        "x-endless-map": b"\xbf\x61v\x01\xff",
        "bytes": field(b"\x45hello"),
        "bytes-none": field(b"\x40"),
        "bytes-like-cid": field(b"\x58\x24" + SOME_CID.raw),
        "link": field(link(SOME_CID.raw)),
        "link-raw": field(link(cid_of(b"x", 0x55).raw)),
        "link-identity": field(link(b"\x01\x55\x00\x03abc")),
        "x-link-v0": field(link(_V0)),
        "x-link-empty": field(b"\xd8\x2a\x41\x00"),
        "x-link-no-zero": field(b"\xd8\x2a\x58\x24" + SOME_CID.raw),
        "x-link-long": field(b"\xd8\x2a\x58\x7f\x00\x01\x71\x12\x7a" + bytes(122)),
        "x-link-trailing": field(b"\xd8\x2a\x58\x26\x00" + SOME_CID.raw + b"!"),
        "x-link-text": field(b"\xd8\x2a\x61a"),
        "x-tag": field(b"\xc0\x61a"),
        "x-tags": field(b"\xd8\x2a" * 200 + b"\x41\x00"),
        "controls": field(text(bytes(range(0x20)) + b'"\\/\x7f<>&')),
        "unicode": field(text("é海🌊\u2028\uffff\U0010ffff".encode())),
        "unicode-long": field(
            text("海が静か、".encode() * 50 + b"\x01" + b"a" * 70 + "é".encode())
        ),
        "empty-key": b"\xa1\x60\x01",
        "odd-key": b"\xa1" + text(b'\n"\xc3\xa9') + b"\x01",
        "x-utf8-overlong": field(text(b"\xc0\x80")),
        "x-utf8-surrogate": field(text(b"ok \xed\xa0\x80")),
        "x-utf8-cut": field(text(b"\xe6\xb5")),
        "x-utf8-high": field(text(b"\xf4\x90\x80\x80")),
        "x-utf8-key": b"\xa1\x61\xff\x01",
        "x-key-number": b"\xa1\x01\x01",
        "x-array": b"\x81\xa0",
        "x-text": b"\x61a",
        "x-nothing": b"",
        "x-trailing": b"\xa0\x00",
        "x-cut": b"\xa1\x61v\x62a",
        "x-cut-head": b"\xa1\x61v\x19\x01",
        "x-huge-text": field(b"\x7b" + b"\xff" * 8),
        "x-huge-array": field(b"\x9b" + b"\xff" * 8),
        "x-huge-map": b"\xbb" + b"\xff" * 8,
        "x-count-lies": field(b"\x9a\x00\x01\xff\xff"),
        "deep-32": nested(32),
        "x-deep-33": nested(33),
        "unsorted": b"\xa2\x61b\x01\x61a\x02",
        "unsorted-nested": b"\xa2\x61b\xa2\x61z\x01\x61y\x80\x61a\x02",
        "unsorted-many": encode_unsorted(range(40, 0, -1)),
        "x-duplicate-many": encode_unsorted([*range(40, 0, -1), 20]),
        "x-duplicate-few": encode_unsorted([5, 4, 3, 2, 1, 4]),
        "x-duplicate": b"\xa2\x61a\x01\x61a\x02",
        "x-duplicate-apart": b"\xa3\x61a\x01\x61b\x02\x61a\x03",
        "strong": encode({"subject": _STRONG}),
        "strong-late": b"\xa2\x63uri\x61u\x63cid\x61c",
        "strong-only-cid": encode({"cid": "bafyrei", "mimeType": "image/png"}),
        "strong-link-cid": encode({"cid": SOME_CID, "uri": "at://x"}),
        "strong-number-uri": encode({"cid": "bafyrei", "uri": 7}),
        "strong-nested": encode({"a": [{"b": {**_STRONG, "via": _STRONG}}], **_STRONG}),
    }.items()
}
