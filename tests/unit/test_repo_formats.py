"""Identifiers, keys, CAR files, commits and PLC logs, each refused where it is broken."""

import random
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.atproto.plc_log import sign_operation
from tests.support.repository.reading import parse_commit, read_header, verify_repo
from trawlnet.atproto import dagcbor
from trawlnet.atproto.cid import Cid, base32, cid_of, debase32, decode_cid, parse_cid
from trawlnet.atproto.identity.base58 import decode_base58, encode_base58
from trawlnet.atproto.identity.did_document import pds_endpoint, signing_key
from trawlnet.atproto.identity.keys import Curve, parse_did_key, parse_multikey
from trawlnet.atproto.identity.plc import LogEntry, parse_log_line
from trawlnet.atproto.identity.plc_log import (
    check_log,
    did_of_genesis,
    fold_log,
    operation_cid,
)
from trawlnet.atproto.syntax import is_did, is_nsid, is_record_key, is_tid, split_path
from trawlnet.atproto.tid import tid, tid_time_us
from trawlnet.atproto.varint import encode_varint, read_varint
from trawlnet.malformed import Malformed
from trawlnet.sim.private_key import PrivateKey
from trawlnet.sim.repository.car import CarBlock, read_frames, write_car
from trawlnet.sim.repository.commit import Commit
from trawlnet.sim.repository.mst import build_tree, key_height
from trawlnet.sim.repository.repo import build_repo

DID = "did:plc:ewvi7nxzyoun6zhxrhs64oiz"
KEY = PrivateKey(Curve.P256, 1234567)
OTHER = PrivateKey(Curve.K256, 7654321)
REV = "3jzfcijpj2z2a"


@given(st.integers(0, 2**63 - 1))
def test_varints_are_read_back(value):
    assert read_varint(b"x" + encode_varint(value), 1) == (value, 1 + len(encode_varint(value)))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x80\x00", b"\xff" * 9, b"\x81" * 12])
def test_broken_varints_are_refused(data):
    with pytest.raises(Malformed):
        read_varint(data, 0)


@given(st.binary(max_size=100))
def test_base58_and_base32_are_read_back(data):
    assert decode_base58(encode_base58(data)) == data
    assert debase32(base32(data)) == data


@given(st.integers(0, 2**53 - 1), st.integers(0, 1023))
@example(2**53 - 1, 1023)
@example(0, 0)
def test_tids_are_read_back_and_sort_by_time(time_us, clock):
    text = tid(time_us, clock)
    assert is_tid(text) and tid_time_us(text) == time_us
    assert tid(max(0, time_us - 1), 1023) <= text or time_us == 0


@pytest.mark.parametrize("text", ["did:plc:x\n", "did:web:a.b\n", ""])
def test_a_line_end_is_no_part_of_an_identifier(text):
    assert not is_did(text)
    assert not is_nsid("com.example.note\n")
    assert not is_record_key("self\n")
    assert not is_tid(REV + "\n")


@pytest.mark.parametrize(
    "path", ["", "a.b.c", "a.b.c/", "/self", "a.b.c/x/y", "a.b/self", "a.b.c/.."]
)
def test_a_path_is_a_collection_and_a_key(path):
    with pytest.raises(Malformed):
        split_path(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "b",
        "zdj7W",
        "Qm",
        "B" + "A" * 58,
        str(cid_of(b"x")).upper(),
        str(cid_of(b"x")) + "a",
        "b" * 300,
    ],
)
def test_broken_cids_are_refused(text):
    with pytest.raises(Malformed):
        parse_cid(text)


def test_a_cid_has_one_spelling():
    text = str(cid_of(b"x"))
    same_bytes = text[:-1] + chr(ord(text[-1]) + 1)
    with pytest.raises(Malformed, match="left-over bits"):
        parse_cid(same_bytes)


@given(st.binary(max_size=120))
def test_cids_are_refused_or_written_back(data):
    try:
        cid = decode_cid(data)
    except Malformed:
        return
    assert cid.raw == data and parse_cid(str(cid)) == cid


@pytest.mark.parametrize("curve", Curve)
def test_keys_sign_repeatably_and_low(curve):
    key = PrivateKey(curve, 99)
    signature = key.sign(b"message")
    assert signature == key.sign(b"message")
    assert key.public.verifies(signature, b"message")
    assert not key.public.verifies(signature, b"massage")
    assert not key.public.verifies(bytes(64), b"message")
    assert not key.public.verifies(signature + b"\0", b"message")
    assert parse_did_key(key.public.did_key) == key.public


@pytest.mark.parametrize(
    "text",
    [
        "",
        "did:key:",
        "did:key:z",
        "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK",
        "did:web:x",
    ],
)
def test_keys_of_other_kinds_are_refused(text):
    with pytest.raises(Malformed):
        parse_did_key(text)


def test_a_point_off_the_curve_is_refused():
    with pytest.raises(Malformed, match="not a point"):
        parse_multikey("z" + encode_base58(b"\x80\x24\x02" + b"\xff" * 32))


def a_repo(records=20, key=KEY):
    values = {f"com.example.note/{number:03}": {"n": number} for number in range(records)}
    return build_repo(DID, values, key, REV)


@pytest.mark.parametrize("key", [KEY, OTHER])
@pytest.mark.parametrize("records", [0, 1, 20, 500])
def test_a_built_repository_verifies_in_any_order_of_blocks(key, records):
    repo = a_repo(records, key)
    for order in (None, random.Random(1), random.Random(2)):
        car = repo.car(order, duplicates=3)
        verified = verify_repo(car, DID, key.public)
        assert [record.rkey for record in verified.records()] == [f"{n:03}" for n in range(records)]


def test_the_same_records_make_the_same_repository():
    assert a_repo() == a_repo()


def test_a_repository_cut_anywhere_is_never_taken_for_whole():
    repo = a_repo(6)
    car = repo.car()
    for end in range(len(car)):
        with pytest.raises(Malformed):
            list(verify_repo(car[:end], DID, KEY.public).records())


def test_any_changed_byte_of_a_repository_is_noticed():
    car = a_repo(6).car()
    for at in range(len(car)):
        damaged = car[:at] + bytes([car[at] ^ 0x20]) + car[at + 1 :]
        with pytest.raises(Malformed):
            list(verify_repo(damaged, DID, KEY.public).records())


def test_a_frame_shorter_than_its_cid_is_refused():
    header = write_car([cid_of(b"")], [])
    with pytest.raises(Malformed, match="shorter than its CID"):
        list(read_frames(header + b"\x05" + cid_of(b"").raw, len(header)))


@pytest.mark.parametrize(
    "header", [{"version": 2, "roots": []}, {"version": 1}, {"version": 1, "roots": [1]}, [], 1]
)
def test_a_car_of_another_kind_is_refused(header):
    data = dagcbor.encode(header)
    with pytest.raises(Malformed):
        read_header(encode_varint(len(data)) + data)


def test_frames_say_where_blocks_are():
    blocks = [CarBlock(cid_of(data), data) for data in (b"one", b"", b"three" * 100)]
    car = write_car([blocks[0].cid], blocks)
    header = read_header(car)
    frames = list(read_frames(car, header.end))
    assert [CarBlock(frame.cid, car[frame.start : frame.end]) for frame in frames] == blocks
    assert [frame.at for frame in frames] == [header.end, *(frame.end for frame in frames[:-1])]


GOOD_COMMIT = {"did": DID, "version": 3, "data": cid_of(b""), "rev": REV, "prev": None, "sig": b""}


@pytest.mark.parametrize(
    "change",
    [
        {"did": "nobody"},
        {"did": 1},
        {"version": 2},
        {"version": "3"},
        {"data": None},
        {"data": "bafy"},
        {"rev": "now"},
        {"rev": None},
        {"prev": "bafy"},
        {"sig": "text"},
        {"more": 1},
    ],
)
def test_a_commit_of_the_wrong_form_is_refused(change):
    assert parse_commit(dagcbor.encode(GOOD_COMMIT)).did == DID
    with pytest.raises(Malformed):
        parse_commit(dagcbor.encode(GOOD_COMMIT | change))


def test_a_commit_lacking_a_field_is_refused():
    for name in GOOD_COMMIT:
        with pytest.raises(Malformed):
            parse_commit(dagcbor.encode({k: v for k, v in GOOD_COMMIT.items() if k != name}))


def test_a_signature_covers_every_field_of_a_commit():
    commit = Commit(DID, cid_of(b"x"), REV).signed(KEY)
    assert commit.signed_by(KEY.public)
    for change in (
        {"did": DID[:-1] + "a"},
        {"data": cid_of(b"y")},
        {"rev": "2" * 13},
        {"prev": cid_of(b"")},
    ):
        assert not replace(commit, **change).signed_by(KEY.public)


KEYS = st.lists(st.binary(min_size=1, max_size=12), unique=True, max_size=60).map(sorted)


def tree_by_recursion(entries, level):
    """The definition of the tree, spelled out slowly: the link to a node for these keys."""
    if not entries:
        return None
    node, rest, before = {"l": None, "e": []}, [], b""
    at_level = [key for key, _ in entries if key_height(key) == level]

    def hang(link):
        if node["e"]:
            node["e"][-1]["t"] = link
        else:
            node["l"] = link

    for key, value in entries:
        if key not in at_level:
            rest.append((key, value))
            continue
        hang(tree_by_recursion(rest, level - 1))
        rest = []
        shared = len([1 for n in range(1, len(key) + 1) if before[:n] == key[:n]]) if before else 0
        node["e"].append({"k": key[shared:], "p": shared, "v": value, "t": None})
        before = key
    hang(tree_by_recursion(rest, level - 1))
    return cid_of(dagcbor.encode(node))


@given(KEYS)
@settings(max_examples=60)
def test_the_quick_builder_agrees_with_the_definition(keys):
    entries = [(key, cid_of(key)) for key in keys]
    top = max((key_height(key) for key in keys), default=0)
    expected = tree_by_recursion(entries, top) or cid_of(dagcbor.encode({"l": None, "e": []}))
    assert build_tree(entries).root == expected


def operation(prev=None, endpoint="https://pds.test", rotation=(KEY, OTHER), signer=KEY):
    unsigned = {
        "type": "plc_operation",
        "rotationKeys": [key.public.did_key for key in rotation],
        "verificationMethods": {"atproto": KEY.public.did_key},
        "alsoKnownAs": [],
        "services": {"atproto_pds": {"type": "AtprotoPersonalDataServer", "endpoint": endpoint}},
        "prev": prev,
    }
    return sign_operation(unsigned, signer)


def log_of(*operations, days=0.01):
    did = did_of_genesis(operations[0])
    moments = [
        f"2024-01-{1 + int(n * days):02}T{int(n * days * 24) % 24:02}:00:00.000Z" for n in range(9)
    ]
    return [
        LogEntry(did, str(operation_cid(one)), one, moment)
        for one, moment in zip(operations, moments, strict=False)
    ]


def cid_text(op):
    return str(operation_cid(op))


def test_a_higher_key_may_undo_what_a_lower_one_did():
    first = operation()
    theft = operation(cid_text(first), "https://thief.test", signer=OTHER)
    rescue = operation(cid_text(first), "https://home.test", signer=KEY)
    log = log_of(first, theft, rescue)
    folded = check_log(log[0].did, log)
    assert folded.nullified == {cid_text(theft)} and folded.state.pds == "https://home.test"


@pytest.mark.parametrize("case", ["lower", "same", "late", "stranger"])
def test_nobody_else_may_undo(case):
    first = operation()
    done = operation(cid_text(first), signer=OTHER if case in ("late", "same") else KEY)
    signer = {"lower": OTHER, "same": OTHER, "late": KEY, "stranger": PrivateKey(Curve.P256, 5)}[
        case
    ]
    undo = operation(cid_text(first), "https://thief.test", signer=signer)
    log = log_of(first, done, undo, days=4 if case == "late" else 0.01)
    with pytest.raises(Malformed):
        check_log(log[0].did, log)


def test_a_tombstone_ends_a_log_unless_it_is_undone():
    first = operation()
    tombstone = sign_operation({"type": "plc_tombstone", "prev": cid_text(first)}, OTHER)
    log = log_of(first, tombstone)
    assert check_log(log[0].did, log).state.tombstoned
    log = log_of(first, tombstone, operation(cid_text(tombstone)))
    with pytest.raises(Malformed, match="after a tombstone"):
        check_log(log[0].did, log)
    log = log_of(first, tombstone, operation(cid_text(first), signer=KEY))
    assert not check_log(log[0].did, log).state.tombstoned


def test_a_log_with_a_broken_chain_is_refused():
    first = operation()
    stray = operation("bafyreiguwtflhou46pupb3qtemh56x6o3fn3y7ym2q3jgoms35tdu2d5ga")
    log = log_of(first, stray)
    with pytest.raises(Malformed, match="not in the log"):
        fold_log(log[0].did, log)
    with pytest.raises(Malformed, match="not in the log"):
        fold_log(log[0].did, log_of(first, operation(None, "https://x.test")))
    with pytest.raises(Malformed, match="empty"):
        fold_log(DID, [])
    with pytest.raises(Malformed, match="first operation"):
        check_log(DID, log_of(first))
    with pytest.raises(Malformed, match="another CID"):
        check_log(log[0].did, [replace(log[0], cid=cid_text(stray))])
    tampered = {**first, "alsoKnownAs": ["at://thief.test"]}
    with pytest.raises(Malformed, match="signed"):
        check_log(did_of_genesis(tampered), log_of(tampered))


@pytest.mark.parametrize(
    "row",
    [
        None,
        {},
        {"operation": {}},
        {"operation": {}, "did": DID, "cid": "x", "createdAt": 1},
        {"operation": {}, "did": DID, "cid": "x", "createdAt": "", "seq": "1"},
        {"operation": {}, "did": DID, "cid": "x", "createdAt": "", "nullified": 0},
    ],
)
def test_a_broken_export_line_is_refused(row):
    with pytest.raises(Malformed):
        parse_log_line(row)


@pytest.mark.parametrize(
    "broken",
    [
        {"type": "unheard of"},
        {"type": "create"},
        {"type": "plc_operation"},
        {"type": "plc_operation", "rotationKeys": [1]},
        {"type": "plc_operation", "rotationKeys": [], "verificationMethods": []},
        {
            "type": "plc_operation",
            "rotationKeys": [],
            "verificationMethods": {},
            "alsoKnownAs": [],
            "services": {"x": 1},
        },
    ],
)
def test_a_broken_operation_is_refused(broken):
    with pytest.raises(Malformed):
        fold_log(DID, [LogEntry(DID, "x", {"prev": None, **broken}, "")])


def test_a_legacy_operation_may_lack_its_scheme():
    op = {"type": "create", "prev": None, "signingKey": "k", "recoveryKey": "r", "handle": "a.test"}
    state = fold_log(DID, [LogEntry(DID, "x", {**op, "service": "pds.test"}, "")]).state
    assert state.pds == "https://pds.test"


@pytest.mark.parametrize("identifier", ["#atproto_pds", f"{DID}#atproto_pds"])
def test_a_document_names_its_server_by_short_or_full_id(identifier):
    service = {
        "id": identifier,
        "type": "AtprotoPersonalDataServer",
        "serviceEndpoint": "https://x.test",
    }
    assert pds_endpoint({"id": DID, "service": [{"id": "#other"}, service]}) == "https://x.test"
    assert (
        pds_endpoint({"id": "did:plc:other", "service": [{**service, "id": f"{DID}#atproto_pds"}]})
        is None
    )


@pytest.mark.parametrize(
    "methods", [None, [], {}, [1], [{"id": "#atproto"}], [{"id": "#x", "type": "Multikey"}]]
)
def test_a_document_without_a_key_is_refused(methods):
    with pytest.raises(Malformed):
        signing_key({"id": DID, "verificationMethod": methods})


def test_a_cid_knows_its_codec():
    assert cid_of(b"").codec == 0x71 and cid_of(b"").is_sha256
    assert not Cid(b"\x01\x55\x13\x01\x00").is_sha256
