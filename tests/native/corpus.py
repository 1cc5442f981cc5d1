"""Writes the fuzzers' seeds, sound and odd: repositories, frames, records, numbers, lines, pages.

Most are small, which makes more executions; a few are as large as what crawls meet.
"""

from __future__ import annotations

import random
import struct
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT))

from tests.support.atproto.hostile_frames import hostile_frames  # noqa: E402 The path comes first.
from tests.support.atproto.made_commits import made_repo, rev_at, some_changes  # noqa: E402
from tests.support.atproto.made_export_lines import ODD, PLAIN, changed  # noqa: E402
from tests.support.repos.made_records import LIKE, ODD_JSON, POST, as_entries  # noqa: E402 The path comes first.
from tests.support.repos.made_repos import (  # noqa: E402 The path comes first.
    DID,
    ODD_RECORDS,
    REV,
    SOME_CID,
    NoKey,
    encode_unsorted,
    field,
    make_car,
    make_record,
    text,
)
from trawlnet.archive.format.json_plain import record_json  # noqa: E402
from trawlnet.archive.format.proof import (  # noqa: E402
    ExceptionKind,
    ProofException,
    encode_exceptions,
)
from trawlnet.atproto.dagcbor import encode, head  # noqa: E402
from trawlnet.sim.repository.car import write_car  # noqa: E402
from trawlnet.sim.repository.repo import build_repo_of_blocks  # noqa: E402

FIXTURES = ROOT.parent / "shared" / "fixtures" / "car"
LARGEST_FIXTURE = 20_000  # Bytes.


def main(folder: Path) -> None:
    write_repositories(folder / "extract")
    write_large_repositories(folder / "extract")
    write_frames(folder / "live")
    write_records(folder / "records")
    write_proofs(folder / "proofs")
    write_numbers(folder / "numbers")
    write_export_lines(folder / "plc")
    write_pages(folder / "page")


def write_frames(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(7)
    for size in (0, 1, 8, 60, 400):
        repo = made_repo(size)
        for count in (1, 3, 9):
            event = repo.commit(some_changes(repo, rng, count), rev_at(count - 1000))
            (folder / f"made-{size}-{count}").write_bytes(event.frame(1))
    for number, hostile in enumerate(hostile_frames()):
        if isinstance(hostile.message, bytes) and len(hostile.message) < LARGEST_FIXTURE:
            (folder / f"hostile-{number:03}").write_bytes(hostile.message)


def write_records(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, body in enumerate(ODD_JSON):
        (folder / f"odd-{number:03}").write_bytes(body)
    (folder / "entries").write_bytes(as_entries([POST, LIKE, b"{}"]))
    (folder / "many").write_bytes(as_entries(body for body in ODD_JSON if len(body) < 50))
    numbers = b",".join([b"1.7976931348623157e+308,5e-324,-0.0,1e400"] * 2000)
    (folder / "large").write_bytes(as_entries([POST] * 2000 + [b'{"n":[' + numbers + b"]}"] * 10))


def write_proofs(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(7)
    bodies = [record_json(make_record(rng), keep_cids=True) for _ in range(8)]
    bodies.append(
        record_json(encode({"b": b"1234", "l": SOME_CID, "n": [-5, 70000]}), keep_cids=True)
    )
    for number, body in enumerate((*bodies, *ODD_JSON)):
        (folder / f"record-{number:03}").write_bytes(body)
    (folder / "entries").write_bytes(as_entries(bodies))
    cid = SOME_CID.raw
    exceptions = [
        ProofException(ExceptionKind.COMMIT, 0, b"commit"),
        ProofException(ExceptionKind.LEFT_OUT, 0, cid, b"a.b.b/x"),
        ProofException(ExceptionKind.SUBTREE, 1, cid[4:], layer=1),
        ProofException(ExceptionKind.RECORD, 1, encode({"v": 1})),
        ProofException(ExceptionKind.NODE, 2, b"node"),
    ]
    (folder / "exceptions").write_bytes(encode_exceptions(exceptions))
    for number, one in enumerate(exceptions):
        (folder / f"exception-{number}").write_bytes(encode_exceptions([one]))


def write_numbers(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(7)
    powers = [struct.pack("<d", 2.0**e) for e in range(-1074, 1024, 7)]
    tens = [struct.pack("<d", float(f"{rng.randrange(1, 10**6)}e{e}")) for e in range(-323, 302, 5)]
    for name, values in (("powers", powers), ("tens", tens)):
        for first in range(0, len(values), 16):
            (folder / f"{name}-{first}").write_bytes(b"".join(values[first : first + 16]))
    (folder / "subnormals").write_bytes(
        b"".join(rng.getrandbits(bits).to_bytes(8, "little") for bits in range(1, 53))
    )


def write_export_lines(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, line in enumerate((PLAIN, changed(prev=None), *ODD)):
        (folder / f"line-{number:03}").write_bytes(line)


def write_pages(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(7)
    for number in range(24):
        body = b"".join(rng.choices(PIECES, k=rng.randrange(1, 30)))
        (folder / f"page-{number:02}").write_bytes(body)
    for number, piece in enumerate(PIECES):
        (folder / f"piece-{number:02}").write_bytes(piece)
    many = b"".join(
        b"<p>word <a href='/x/%d?y=%d#z'>an  anchor</a> more" % (n, n) for n in range(1500)
    )
    (folder / "large").write_bytes(many)
    (folder / "flat").write_bytes(b"words and words " * 100_000 + b"<a href=/last>")


def write_repositories(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(7)
    for size in (0, 1, 3, 8, 30, 60):
        names = [f"app.bsky.feed.{rng.choice(('post', 'like'))}/3k{n:011d}" for n in range(size)]
        car = make_car(
            {name: make_record(rng) for name in names}, shuffle=size, duplicates=size % 3
        )
        (folder / f"made-{size}.car").write_bytes(car)
    odd = sorted(ODD_RECORDS)
    for first in range(0, len(odd), 6):
        car = make_car({name: ODD_RECORDS[name] for name in odd[first : first + 6]})
        (folder / f"odd-{first}.car").write_bytes(car)
    for path in sorted(FIXTURES.glob("*.car")):
        if path.stat().st_size <= LARGEST_FIXTURE:
            (folder / path.name).write_bytes(path.read_bytes())
    for size in (1, 5, 40):
        (folder / f"tree-last-{size}.car").write_bytes(tree_last(size))


def tree_last(size: int) -> bytes:
    """The tree's nodes behind all else: the CAR ends with a node."""
    records = {f"a.b.c/{'k' * (n % 20)}{n}": field(head(0, n)) for n in range(size)}
    repo = build_repo_of_blocks(DID, records, NoKey(), REV)
    values = set(records.values())
    blocks = sorted(
        repo.blocks, key=lambda block: (block.cid != repo.head, block.data not in values)
    )
    return write_car([repo.head], blocks)


def write_large_repositories(folder: Path) -> None:
    rng = random.Random(8)
    ordinary = {f"app.bsky.feed.post/3k{n:011d}": make_record(rng) for n in range(5000)}
    (folder / "large-ordinary.car").write_bytes(make_car(ordinary))
    doubles = [b"\xfb" + rng.randbytes(8) for _ in range(50_000)]
    keys = [f"{rng.getrandbits(60)}" for _ in range(20_000)]
    odd = {
        "a.b.c/doubles": field(head(4, len(doubles)) + b"".join(doubles)),
        "a.b.c/keys": head(5, len(keys)) + b"".join(encode(key) + b"\x01" for key in keys),
        "a.b.c/shuffled": encode_unsorted(rng.sample(range(200), 200)),
        "a.b.c/sea": field(head(4, 8) + text("é海🌊\x01".encode() * 5000) * 8),
        **{f"a.b.c/again-{'p' * 400}{n}": field(text(b"x" * 60_000)) for n in range(20)},
    }
    (folder / "large-odd.car").write_bytes(make_car(odd))


PIECES = (
    b"<a href=/a>",
    b"<a href='b.html?x=1&amp;y=2#z' rel='external NoFollow'>",
    b'<A HREF="caf\xc3\xa9" REL=nofollow\xc2\xa0x>',
    b"<a href=#top>",
    b"<a href=//other.example/>",
    b"<a src=/no href=/yes href=/twice>",
    b"</a>",
    b"<area href=/area alt=x>",
    b"<iframe src=/frame href=/no></iframe>",
    b"<frameset><frame src=/old></frameset>",
    b"<link rel='next canonical' href=/n>",
    b"<base href=/base/ target=_top>",
    b"<meta http-equiv=refresh content='1;url=/r'>",
    b"<svg><a xlink:href=/s href=/t><use xlink:href=/u></svg>",
    b"<math><a href=/m>",
    b"<template><a href=/t></template>",
    b"<table><tr><td></table>",
    b"<select><option></select>",
    b"<p><b><i></b>",
    b"<script>'<a href=/no>'</script>",
    b"<!-- <a href=/no> -->",
    b"one\xc2\xa0two\xe2\x80\x83three\xe3\x80\x80",
    b"\x1c\x1f\x85\x0c\xff\xfe\xc3\0",
    b"&nbsp;&amp;&#8195;&#x1F30D;&notin",
    b"word " * 70,
    b"<plaintext>",
)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
