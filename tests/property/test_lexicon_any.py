"""Any value against any lexicon: a verdict, never an accident; and what is made to fit does fit."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.pds.sim_model import about_eprint, eprint
from trawlnet.atproto.lexicon.schema import parse_lexicon, record_problem
from trawlnet.atproto.lexicon.strings import graphemes, string_problem
from trawlnet.atproto.syntax import AtUri
from trawlnet.crawlers.pds.records.lexicon_files import load_lexicons
from trawlnet.crawlers.pds.records.routing import Fate, Routes
from trawlnet.crawlers.pds.scanning.pages import read_description, read_records, read_repos
from trawlnet.malformed import Malformed

NSID = "com.example.thing"
DID = "did:plc:ewvi7nxzyoun6zhxrhs64oiz"
CID = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"
ROUTES = Routes(lexicons=load_lexicons(), index_tags=True)
RECORDS: dict[str, dict[str, Any]] = {
    "pub.chive.eprint.submission": eprint(DID, 1),
    "pub.chive.review.comment": about_eprint(DID, body=[{"content": "x"}]),
    "pub.chive.review.endorsement": about_eprint(DID, contributions=["empirical"], comment="x"),
    "pub.chive.eprint.userTag": about_eprint(DID, tag="x"),
    "pub.chive.eprint.tag": about_eprint(DID, tag="x"),
}
words = st.text(st.characters(codec="utf-8"), max_size=20)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | words
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4)
)


@st.composite
def fitting(draw: st.DrawFn, depth: int = 3) -> tuple[dict[str, Any], Any]:
    """A schema, and a value that keeps to it."""
    kinds = ["boolean", "integer", "string", "array", "object"] if depth else ["boolean", "string"]
    match draw(st.sampled_from(kinds)):
        case "boolean":
            return {"type": "boolean"}, draw(st.booleans())
        case "integer":
            value = draw(st.integers(-(2**63), 2**63 - 1))
            least, most = draw(st.integers(max_value=value)), draw(st.integers(min_value=value))
            return {"type": "integer", "minimum": least, "maximum": most}, value
        case "string":
            text = draw(words)
            size, count = len(text.encode()), graphemes(text)
            bounds = {"minLength": size, "maxLength": size, "maxGraphemes": count}
            return {"type": "string", **bounds, "minGraphemes": count}, text
        case "array":
            schema, value = draw(fitting(depth - 1))
            items = [value] * draw(st.integers(0, 3))
            return {"type": "array", "items": schema, "maxLength": len(items)}, items
        case _:
            fields = draw(st.dictionaries(words, fitting(depth - 1), max_size=4))
            schemas = {name: schema for name, (schema, _) in fields.items()}
            schema = {"type": "object", "required": list(fields), "properties": schemas}
            return schema, {name: value for name, (_, value) in fields.items()}


@settings(max_examples=150, deadline=None)
@given(fitting())
def test_what_is_made_to_fit_fits(pair: tuple[dict[str, Any], Any]) -> None:
    schema, value = pair
    record = {"type": "object", "required": ["v"], "properties": {"v": schema}}
    main = {"type": "record", "record": record}
    one = parse_lexicon({"lexicon": 1, "id": NSID, "defs": {"main": main}})
    assert record_problem({NSID: one}, NSID, {"$type": NSID, "v": value}) is None
    assert record_problem({NSID: one}, NSID, {"$type": NSID}) is not None


@settings(max_examples=150, deadline=None)
@given(values)
def test_no_document_makes_the_reader_of_lexicons_fall(document: Any) -> None:
    for candidate in (document, {"lexicon": 1, "id": NSID, "defs": {"main": document}}):
        try:
            one = parse_lexicon(candidate)
        except Malformed:
            continue
        assert one.nsid == NSID


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(RECORDS)), st.data())
def test_a_record_with_anything_in_it_gets_a_fate_and_is_kept(
    collection: str, data: st.DataObject
) -> None:
    value = {"$type": collection, **RECORDS[collection]}
    assert ROUTES.route(AtUri(DID, collection, "3k"), CID, value).fate is Fate.INDEXED
    field = data.draw(st.sampled_from(sorted(value)))
    spoilt = {**value, field: data.draw(values)}
    routed = ROUTES.route(AtUri(DID, collection, "3k"), CID, spoilt)
    assert orjson.loads(routed.record.raw_json) == orjson.loads(orjson.dumps(spoilt))
    assert routed.record.is_indexed is (routed.fate is Fate.INDEXED)
    for column in routed.record.columns.values():
        assert column is None or isinstance(column, int) or "\0" not in str(column)


@settings(max_examples=150, deadline=None)
@given(st.text(), st.integers(0, 30), st.integers(0, 30))
def test_lengths_are_of_bytes_and_of_graphemes(text: str, most: int, characters: int) -> None:
    schema = {"type": "string", "maxLength": most, "maxGraphemes": characters}
    size = len(text.encode("utf-8", "surrogatepass"))
    fits = size <= most and graphemes(text) <= characters
    assert (string_problem(schema, text) == "") is fits


@settings(max_examples=200, deadline=None)
@given(values | st.fixed_dictionaries({"repos": values, "records": values, "cursor": values}))
def test_no_page_makes_its_reader_fall_or_names_somebody_else(page: Any) -> None:
    body = orjson.dumps(page)
    try:
        for record in read_records(body, DID, NSID).records:
            assert str(record.uri).startswith(f"at://{DID}/{NSID}/")
    except Malformed:
        pass
    for read in (lambda: read_repos(body), lambda: read_description(body, DID)):
        try:
            read()
        except Malformed:
            pass


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [f"at://{DID}/{NSID}/{key}" for key in ("a", "b", "..", "x/y", "")]
            + [
                f"at://did:plc:other/{NSID}/a",
                f"at://{DID}/com.example.other/a",
                f"AT://{DID}/{NSID}/a",
                f"at://{DID}/{NSID}/a?x=1",
                f"at://{DID}/{NSID}/a#x",
                f" at://{DID}/{NSID}/a",
                "",
            ]
        ),
        max_size=8,
    )
)
def test_only_records_of_the_repo_and_collection_asked_for_are_taken(uris: list[str]) -> None:
    rows = [{"uri": uri, "cid": CID, "value": {}} for uri in uris]
    page = read_records(orjson.dumps({"records": rows}), DID, NSID)
    own = {f"at://{DID}/{NSID}/a", f"at://{DID}/{NSID}/b"}
    assert {str(record.uri) for record in page.records} == own & set(uris)
    assert page.forged == sum(uri not in own for uri in uris)
