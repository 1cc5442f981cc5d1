"""Code by our own hands beside the library that would do it instead: CRC, SHA-256, WARC, CSV, JWT.

Run: python bench/own_hands.py
Ways are interleaved; the median CPU time of nine rounds counts.
docs/decisions/0075 quotes and weighs the figures.
"""

from __future__ import annotations

import csv
import hashlib
import io
import random
import statistics
import sys
import time
import zlib
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from joserfc import jws
from joserfc.jwk import ECKey
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from trawlnet.atproto.identity.jwt import parse_jwt
from trawlnet.atproto.identity.keys import Curve
from trawlnet.captures.capture import Capture
from trawlnet.captures.rows import csv_bytes
from trawlnet.captures.warc.records import Packing, WarcRecords, packing_of
from trawlnet.native.loader import native
from trawlnet.sim.private_key import PrivateKey

ROUNDS = 9
Ways = Mapping[str, Callable[[], object]]


def main() -> None:
    assert native is not None, "compile it first: python setup.py build_ext --inplace"
    noise = random.Random(1).randbytes(1 << 20)
    pieces = [noise[i : i + 200] for i in range(0, len(noise), 200)]
    show("CRC-32 of 1 MB", {"ours": lambda: native.crc32(noise), "zlib": lambda: zlib.crc32(noise)})
    ours, theirs = native.sha256, lambda data: hashlib.sha256(data).digest()
    show("SHA-256 of 1 MB", {"ours": lambda: ours(noise), "hashlib": lambda: theirs(noise)})
    show(
        "SHA-256 of 5,243 blocks of 200 bytes, called from Python",
        {"ours": lambda: list(map(ours, pieces)), "hashlib": lambda: list(map(theirs, pieces))},
    )
    for packing, packed in ((PLAIN, False), (packing_of(None), True)):
        ways: Ways = {"ours": partial(our_warc, packing), "warcio": partial(their_warc, packed)}
        show(f"WARC: 50 pages of 33 kB, {'each as it packs' if packed else 'not packed'}", ways)
    rows = [
        [f"https://example.org/{i}", "/b", "a link", 3, "the words, around it"] for i in range(5000)
    ]
    assert csv_bytes(rows) == their_csv(rows)
    show("CSV: 5,000 links", {"ours": lambda: csv_bytes(rows), "csv": lambda: their_csv(rows)})
    show("JWT: 200 tokens taken apart and verified", tokens())


def show(title: str, ways: Ways) -> None:
    for way in ways.values():
        way()
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            begun = time.process_time()
            way()
            taken[name].append(time.process_time() - begun)
    told = ", ".join(f"{name} {1e3 * statistics.median(t):.3f} ms" for name, t in taken.items())
    print(f"{title}: {told}")


HEADERS = [("Content-Type", "text/html; charset=utf-8"), ("Server", "example")]
_WORDS = [f"word{i}" for i in range(2000)]
PAGES = [" ".join(random.Random(i).choices(_WORDS, k=4000)).encode() for i in range(50)]
PLAIN = Packing(lambda record: record, ".warc")


def our_warc(packing: Packing) -> bytes:
    records = WarcRecords("bench", packing)
    for i, page in enumerate(PAGES):
        url = f"https://example.org/{i}"
        records.add(Capture(1.7e9, url, 200, page, response_headers=HEADERS), None)
    return records.take()


def their_warc(packed: bool) -> bytes:
    out = io.BytesIO()
    writer = WARCWriter(out, gzip=packed)
    for i, page in enumerate(PAGES):
        head = StatusAndHeaders("200 OK", HEADERS, protocol="HTTP/1.1")
        url = f"https://example.org/{i}"
        record = writer.create_warc_record(url, "response", io.BytesIO(page), http_headers=head)
        writer.write_record(record)
    return out.getvalue()


def their_csv(rows: list[list[object]]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue().encode()


def tokens() -> Ways:
    key = PrivateKey(Curve.P256, 12345)
    public = key.public
    signed = b".".join(map(_base64, (b'{"alg":"ES256"}', b'{"iss":"did:plc:a","exp":1}')))
    token = (signed + b"." + _base64(key.sign(signed))).decode()
    theirs = ECKey.import_key(_jwk(12345))

    def ours() -> None:
        assert all(parse_jwt(token).is_signed_by(public) for _ in range(200))

    def library() -> None:
        for _ in range(200):
            jws.deserialize_compact(token, theirs, algorithms=["ES256"])

    return {"ours": ours, "joserfc": library}


def _base64(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")


def _jwk(secret: int) -> dict[str, str]:
    from cryptography.hazmat.primitives.asymmetric import ec

    numbers = ec.derive_private_key(secret, ec.SECP256R1()).public_key().public_numbers()
    x, y = (_base64(n.to_bytes(32, "big")).decode() for n in (numbers.x, numbers.y))
    return {"kty": "EC", "crv": "P-256", "x": x, "y": y}


if __name__ == "__main__":
    main()
