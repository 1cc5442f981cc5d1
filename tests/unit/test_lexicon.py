"""Lexicons: what a record must keep to, and what a lexicon itself must be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.pds.sim_model import about_eprint, eprint
from trawlnet.atproto.lexicon.schema import Lexicon, parse_lexicon, record_problem
from trawlnet.atproto.lexicon.strings import graphemes, string_problem
from trawlnet.atproto.syntax import AtUri
from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.pds.records.lexicon_files import load_lexicons
from trawlnet.crawlers.pds.records.routing import Fate, Routes
from trawlnet.malformed import Malformed
from trawlnet.tables.scanned.rows import Table

NSID = "com.example.thing"
CID = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"
DID = "did:plc:ewvi7nxzyoun6zhxrhs64oiz"


def lexicon(
    properties: dict[str, Any], *, defs: dict[str, Any] | None = None, **more: Any
) -> Lexicon:
    record = {"type": "object", "properties": properties, **more}
    main = {"type": "record", "key": "tid", "record": record}
    return parse_lexicon({"lexicon": 1, "id": NSID, "defs": {"main": main, **(defs or {})}})


def problem(one: Lexicon, value: dict[str, Any]) -> str:
    found = record_problem({NSID: one}, NSID, {"$type": NSID, **value})
    return str(found) if found else ""


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "boolean"}, [True, False], [0, 1, "true", None]),
        ({"type": "boolean", "const": True}, [True], [False]),
        ({"type": "integer"}, [0, -5, 2**63 - 1], [1.0, True, "1", 2**63, None]),
        ({"type": "integer", "minimum": 1, "maximum": 3}, [1, 3], [0, 4]),
        ({"type": "integer", "enum": [1, 5]}, [5], [2]),
        ({"type": "string"}, ["", "x"], [1, None, ["x"]]),
        ({"type": "string", "maxLength": 4}, ["abcd", "éé"], ["abcde", "ééé", "日本"]),
        ({"type": "string", "minLength": 2}, ["é", "ab"], ["a", ""]),
        (
            {"type": "string", "maxGraphemes": 2},
            ["👩‍👩‍👧‍👦🇩🇪", "e\u0301e\u0301", "ab"],
            ["abc", "🇩🇪🇫🇷🇮🇹"],
        ),
        ({"type": "string", "minGraphemes": 2}, ["ab"], ["👩‍👩‍👧‍👦", "e\u0301"]),
        ({"type": "string", "enum": ["a"]}, ["a"], ["b"]),
        ({"type": "string", "const": "a"}, ["a"], ["b"]),
        ({"type": "string", "knownValues": ["a"]}, ["a", "anything"], [1]),
        (
            {"type": "bytes", "maxLength": 3},
            [{"$bytes": "AAAA"}],
            [{"$bytes": "AAAAAA"}, "AAAA", {}],
        ),
        ({"type": "cid-link"}, [{"$link": CID}], [CID, {"$link": "x"}, {"$link": CID, "more": 1}]),
        ({"type": "unknown"}, [{}, {"any": ["thing"]}], ["text", 1, None, []]),
        ({"type": "array", "items": {"type": "integer"}}, [[], [1]], [{}, [1, "2"]]),
        (
            {"type": "array", "items": {"type": "integer"}, "minLength": 1, "maxLength": 2},
            [[1]],
            [[], [1, 2, 3]],
        ),
        (
            {"type": "blob", "accept": ["image/*"], "maxSize": 10},
            [
                {"$type": "blob", "ref": {"$link": CID}, "mimeType": "image/png", "size": 10},
                {"cid": CID, "mimeType": "image/png"},
            ],
            [
                {"$type": "blob", "ref": {"$link": CID}, "mimeType": "image/png", "size": 11},
                {"$type": "blob", "ref": {"$link": CID}, "mimeType": "text/html", "size": 1},
                {"$type": "blob", "ref": CID, "mimeType": "image/png", "size": 1},
                {"$type": "blob", "ref": {"$link": CID}, "mimeType": "image/png"},
                {"ref": {"$link": CID}, "mimeType": "image/png", "size": 1},
                CID,
            ],
        ),
    ],
    ids=lambda value: json.dumps(value)[:50] if isinstance(value, dict) else None,
)
def test_a_value_is_held_to_its_type(
    schema: dict[str, Any], good: list[Any], bad: list[Any]
) -> None:
    one = lexicon({"v": schema})
    assert [value for value in good if problem(one, {"v": value})] == []
    assert [value for value in bad if not problem(one, {"v": value})] == []


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        ("did", [DID, "did:web:example.com"], ["did:", "alice.example.com", ""]),
        ("handle", ["alice.example.com"], ["alice", DID]),
        ("at-identifier", [DID, "alice.example.com"], ["at://x"]),
        ("at-uri", [f"at://{DID}/app.bsky.feed.post/3k2a"], ["https://x.example", f"at://{DID}/x"]),
        ("cid", [CID], ["nope"]),
        ("nsid", ["com.example.foo"], ["foo", "com.example.3"]),
        ("tid", ["3jzfcijpj2z2a"], ["3jzfcijpj2z2", "0000000000000"]),
        ("record-key", ["self", "a~b"], [".", "a/b", ""]),
        ("uri", ["https://example.com/x", "at:x", "ftp://a"], ["nothing", "https://a b"]),
        ("language", ["en", "pt-BR", "i-navajo"], ["english!", ""]),
        (
            "datetime",
            ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456+01:00", "1985-04-12T23:20:50.1Z"],
            [
                "2026-01-02",
                "2026-01-02T03:04:05",
                "2026-01-02T03:04:05-00:00",
                "2026-13-02T03:04:05Z",
            ],
        ),
    ],
)
def test_a_string_is_held_to_its_format(form: str, good: list[str], bad: list[str]) -> None:
    schema = {"type": "string", "format": form}
    assert [text for text in good if string_problem(schema, text)] == []
    assert [text for text in bad if not string_problem(schema, text)] == []


def test_required_nullable_and_unknown_fields() -> None:
    one = lexicon(
        {"a": {"type": "string"}, "n": {"type": "string"}}, required=["a"], nullable=["n"]
    )
    assert problem(one, {}) == "a: is missing"
    assert problem(one, {"a": None}) == "a: is not a string"
    assert problem(one, {"a": "x", "n": None, "more": [{}]}) == ""


def test_the_type_of_a_record_is_its_collection() -> None:
    one = lexicon({})
    assert record_problem({NSID: one}, NSID, {}) is not None
    assert record_problem({NSID: one}, NSID, {"$type": "com.example.other"}) is not None
    assert record_problem({NSID: one}, NSID, ["not an object"]) is not None


def test_references_within_and_between_files() -> None:
    point = {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}}}
    one = lexicon(
        {
            "near": {"type": "ref", "ref": "#point"},
            "far": {"type": "array", "items": {"type": "ref", "ref": "com.example.defs#point"}},
        },
        defs={"point": point},
    )
    other = parse_lexicon({"lexicon": 1, "id": "com.example.defs", "defs": {"point": point}})
    both = {NSID: one, "com.example.defs": other}
    wrong = {"$type": NSID, "far": [{"x": 1}, {"y": 2}]}
    assert str(record_problem(both, NSID, wrong)) == "far[1].x: is missing"
    assert problem(one, {"near": {"x": "1"}}) == "near.x: is not an integer"
    # Of a lexicon that is not there nothing is known.
    assert problem(one, {"far": [{"y": 2}]}) == ""


def test_unions_are_open_unless_closed() -> None:
    text = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
    refs = {"type": "union", "refs": ["#text"]}
    open_ = lexicon({"v": refs}, defs={"text": text})
    closed = lexicon({"v": refs | {"closed": True}}, defs={"text": text})
    mine = f"{NSID}#text"
    for one in (open_, closed):
        assert problem(one, {"v": {"$type": mine, "text": "x"}}) == ""
        assert problem(one, {"v": {"$type": mine}}) == "v.text: is missing"
        assert problem(one, {"v": {"text": "x"}}) and problem(one, {"v": "x"})
    assert problem(open_, {"v": {"$type": "com.example.new"}}) == ""
    assert problem(closed, {"v": {"$type": "com.example.new"}})


def test_neither_circles_nor_depth_hang_a_check() -> None:
    ring = lexicon({"v": {"type": "ref", "ref": "#a"}}, defs={"a": {"type": "ref", "ref": "#a"}})
    assert "refers to itself" in problem(ring, {"v": 1})
    tree = {"type": "object", "properties": {"next": {"type": "ref", "ref": "#tree"}}}
    deep = lexicon({"v": {"type": "ref", "ref": "#tree"}}, defs={"tree": tree})
    value: dict[str, Any] = {}
    for _ in range(500):
        value = {"next": value}
    assert "deeper" in problem(deep, {"v": value})


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        {"lexicon": 2, "id": NSID, "defs": {"main": {"type": "token"}}},
        {"lexicon": 1, "id": "not an nsid", "defs": {"main": {"type": "token"}}},
        {"lexicon": 1, "id": NSID, "defs": {}},
        {"lexicon": 1, "id": NSID, "defs": {"main": {"type": "rekord"}}},
        {
            "lexicon": 1,
            "id": NSID,
            "defs": {"main": {"type": "record", "record": {"type": "string"}}},
        },
        {"lexicon": 1, "id": NSID, "defs": {"a": {"type": "array"}}},
        {"lexicon": 1, "id": NSID, "defs": {"a": {"type": "ref"}}},
        {"lexicon": 1, "id": NSID, "defs": {"a": {"type": "union"}}},
        {"lexicon": 1, "id": NSID, "defs": {"a": {"type": "object", "required": "x"}}},
        {"lexicon": 1, "id": NSID, "defs": {"a": {"type": "string", "maxLength": "5"}}},
        {"lexicon": 1, "id": NSID, "defs": {"a": {"type": "string", "format": "colour"}}},
    ],
    ids=range(13),
)
def test_a_slip_in_a_lexicon_is_noticed_on_loading(document: Any) -> None:
    with pytest.raises(Malformed):
        parse_lexicon(document)


def test_a_file_of_the_workspace_stands_before_a_shipped_one(tmp_path: Path) -> None:
    shipped = load_lexicons()
    assert {name for name in shipped if shipped[name].is_record} == {
        "pub.chive.eprint.submission",
        "pub.chive.eprint.tag",
        "pub.chive.eprint.userTag",
        "pub.chive.review.comment",
        "pub.chive.review.endorsement",
    }
    mine = {"lexicon": 1, "id": "pub.chive.eprint.tag", "defs": {"main": {"type": "token"}}}
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "tag.json").write_text(json.dumps(mine))
    assert not load_lexicons(tmp_path)["pub.chive.eprint.tag"].is_record
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(NotReady, match=r"broken\.json"):
        load_lexicons(tmp_path)


def test_graphemes_are_what_a_reader_counts() -> None:
    assert [
        graphemes(text) for text in ("", "a", "👩‍👩‍👧‍👦", "e\u0301", "🇩🇪🇫🇷", "한국", "\r\n")
    ] == [*(0, 1, 1, 1, 2, 2, 1)]


ROUTES = Routes(lexicons=load_lexicons())


def fate(collection: str, value: dict[str, Any], routes: Routes = ROUTES) -> tuple[Fate, Table]:
    routed = routes.route(AtUri(DID, collection, "3k2a"), CID, value)
    return routed.fate, routed.record.table


LEGACY: list[dict[str, Any]] = [
    {"abstract": "Only words."},
    {"abstract": ["Words", {"type": "text", "content": "and passages."}]},
    {"abstract": None, "drop": ["abstract"]},
    {"license": "CC0-1.0", "drop": ["licenseSlug"]},
    {"drop": ["licenseSlug", "submittedBy", "abstract"]},
    {"document": {"ref": CID, "mimeType": "application/pdf", "size": 1}},
    {"document": {"$type": "blob", "ref": {"$link": CID}, "mimeType": "text/x", "size": 1}},
]


@pytest.mark.parametrize("change", LEGACY, ids=range(len(LEGACY)))
def test_submissions_of_old_are_understood(change: dict[str, Any]) -> None:
    collection = "pub.chive.eprint.submission"
    value = {**eprint(DID, 1), **change}  # Without a $type, as they were once written.
    for name in value.pop("drop", []):
        del value[name]
    assert fate(collection, value) == (Fate.INDEXED, Table.EPRINTS)
    columns = ROUTES.route(AtUri(DID, collection, "3k2a"), CID, value).record.columns
    assert columns["submitted_by"] == DID and columns["license"] in ("CC-BY-4.0", "CC0-1.0")
    assert columns["document_cid"] == CID


@pytest.mark.parametrize(
    "missing", ["title", "document", "authors", "createdAt"], ids=lambda name: str(name)
)
def test_what_no_submission_ever_lacked_is_required(missing: str) -> None:
    value = eprint(DID, 1)
    del value[missing]
    assert fate("pub.chive.eprint.submission", value) == (Fate.FAILED, Table.INVALID)


def test_the_rest_is_held_to_its_lexicon_strictly() -> None:
    comment, endorsement = "pub.chive.review.comment", "pub.chive.review.endorsement"
    good = about_eprint(DID, body=[{"content": "x"}])
    assert fate(comment, {"$type": comment, **good}) == (Fate.INDEXED, Table.REVIEWS)
    assert fate(comment, good)[0] is Fate.FAILED
    assert fate(comment, {"$type": comment, **good, "body": "x"})[0] is Fate.FAILED
    pointed = {"$type": comment, "subject": {"uri": good.pop("eprintUri")}, **good}
    assert fate(comment, pointed) == (Fate.INDEXED, Table.REVIEWS)
    assert fate(comment, {"$type": comment, **good}) == (Fate.FAILED, Table.INVALID)
    for contributions in ([], ["x"] * 16, "x"):
        value = {"$type": endorsement, **about_eprint(DID, contributions=contributions)}
        assert fate(endorsement, value)[0] is Fate.FAILED


def test_which_collections_are_wanted_and_how_metrics_call_them() -> None:
    routes = Routes(globs=("pub.chive.*", "com.example.thing"), lexicons=load_lexicons())
    assert routes.wants("pub.chive.eprint.submission") and routes.wants("pub.chive.new")
    assert not routes.wants("pub.chivex.thing") and not routes.wants("pub.chive.not an nsid")
    assert "com.example.thing" in routes.names and len(routes.names) == 6
    assert routes.label("pub.chive.anything.a.stranger.wrote") == "pub.chive.*"
    assert routes.label("org.stranger.thing") == "other"
    assert (
        routes.scope != Routes(globs=routes.globs, lexicons=routes.lexicons, index_tags=True).scope
    )
