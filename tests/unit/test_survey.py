"""The survey of an archive agrees with what was put in, and with `tally`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.program import at_once
from tests.support.repos.made_records import as_entries
from tests.support.repos.made_segments import PDS, make_block, write
from trawlnet.archive.survey import OTHERS, UNDATED, survey
from trawlnet.archive.tally import tally

ALICE, BOB = "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa", "did:plc:bbbbbbbbbbbbbbbbbbbbbbbb"
POSTS = {
    "1": b'{"createdAt":"2024-03-09T00:00:00Z","langs":["en","pt-BR"],"text":"a"}',
    "2": b'{"createdAt":"2024-05-01T00:00:00Z","langs":["EN-gb"]}',
    "3": b'{"createdAt":17,"langs":"en"}',
    "4": b'{"createdAt":"2024-13-01","langs":[1,"","x1"]}',
    "5": b'{"reply":{"createdAt":"2020-01-01"}}',
    "6": b"[]",
}


def put_up(folder: Path) -> None:
    one = make_block(ALICE, 5, {"app.bsky.feed.post": POSTS})
    two = make_block(BOB, 5, {"a.b.c": {"x": b'{"createdAt":"2024-03-31"}'}})
    old = make_block(ALICE, 1, {"app.bsky.feed.post": {"0": b'{"createdAt":"2019-01-01"}'}})
    write(folder, [old, one, two])


def test_it_counts_what_is_there_and_only_the_latest_of_each(tmp_path: Path):
    put_up(tmp_path)
    seen = survey(tmp_path)
    assert dict(seen.records_by_month) == {"2024-03": 2, "2024-05": 1, UNDATED: 4}
    assert dict(seen.languages) == {"en": 2, "pt": 1}
    assert dict(seen.repos_by_pds) == {PDS: 2} and dict(seen.records_by_pds) == {PDS: 7}
    counted = tally(tmp_path)
    assert (seen.tally.repos, seen.tally.records) == (counted.repos, counted.records) == (2, 7)
    assert seen.tally.superseded == 1 and not seen.tally.damage


def test_names_beyond_a_bound_are_counted_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("trawlnet.archive.survey._MOST_WORDS", 2)
    record = {"1": b'{"createdAt":"2024-03-09"}'}
    named = [("a.b.c", "a.b.d"), ("a.b.d", "a.b.e"), ("a.b.f", "a.b.g"), ("a.b.c",)]
    blocks = [
        make_block(f"did:plc:{number:024d}", 5, dict.fromkeys(names, record))
        for number, names in enumerate(named)
    ]
    write(tmp_path, blocks)
    seen = survey(tmp_path)
    rows = {name: row.records for name, row in seen.tally.collections.items()}
    assert rows == {"a.b.c": 2, "a.b.d": 2, OTHERS: 3}
    assert seen.tally.records == 7 and seen.records_by_month == {"2024-03": 7}
    assert seen.tally.collections[OTHERS].unpacked == 3 * len(as_entries(record.values(), b"1"))


def test_progress_adds_up_to_the_blocks(tmp_path: Path):
    put_up(tmp_path)
    told: list[int] = []
    survey(tmp_path, told.append)
    assert len(told) == 3 and sum(told) < sum(p.stat().st_size for p in tmp_path.glob("*.rca"))


def test_damage_costs_its_collection_and_is_told(tmp_path: Path):
    put_up(tmp_path)
    (path,) = tmp_path.glob("*.rca")
    data = bytearray(path.read_bytes())
    at = data.rindex(b"\x28\xb5\x2f\xfd")  # The last compressed collection begins here.
    data[at + 6 : at + 10] = b"\xff\xff\xff\xff"
    path.write_bytes(data)
    ran = at_once("repos", "report", tmp_path, "--json")
    told = json.loads(ran.out)
    assert ran.code == 1 and len(told["damage"]) == 1 and told["records"] == 7
    assert sum(told["months"].values()) == 6


def test_the_command_writes_one_page_and_says_where(tmp_path: Path):
    put_up(tmp_path)
    page = tmp_path / "out.html"
    ran = at_once("repos", "report", tmp_path, "-o", page)
    assert ran.code == 0 and ran.out.strip() == str(page)
    text = page.read_text().replace("<wbr>", "")  # Names may be broken between their parts.
    assert "app.bsky.feed.post" in text and "2024-04" in text and PDS in text
    assert [found.name for found in tmp_path.glob("*out.html*")] == ["out.html"]


def test_a_place_that_cannot_be_written_is_an_error_with_a_hint(tmp_path: Path):
    put_up(tmp_path)
    ran = at_once("repos", "report", tmp_path, "-o", tmp_path / "no" / "such" / "r.html")
    assert ran.code == 1 and "cannot write" in ran.err and "-o FILE" in ran.err


@pytest.mark.parametrize(
    "odd",
    [
        [b'{"createdAt":"2024-01-01","x":[1', b"2]}", b'{},{"createdAt":"2024-02-01"}'],
        [b'{"createdAt":"2024-01-01","x":[1,', b"2]}", b'{}\n{"createdAt":"2024-02-01"}'],
        [b"", b'{"createdAt":"2024-01-01"', b"}"],
    ],
)
def test_a_record_that_would_swallow_its_neighbour_stays_alone(tmp_path: Path, odd: list[bytes]):
    records = dict(zip("123", odd, strict=True)) | {"4": b'{"createdAt":"2024-03-01"}'}
    write(tmp_path, [make_block(ALICE, 5, {"a.b.c": records})])
    assert dict(survey(tmp_path).records_by_month) == {"2024-03": 1, UNDATED: 3}
