"""The published test vectors of the protocol, and real repositories with their signatures."""

import json
from base64 import b64decode
from pathlib import Path

import pytest

from tests.support.repository import cbor_decoder
from tests.support.repository.reading import parse_commit, read_header, verify_repo, walk_tree
from trawlnet.atproto import dagcbor, syntax
from trawlnet.atproto.cid import Cid, cid_of, matches, parse_cid
from trawlnet.atproto.identity.base58 import decode_base58
from trawlnet.atproto.identity.did_document import signing_key
from trawlnet.atproto.identity.keys import Curve, parse_did_key
from trawlnet.atproto.identity.plc import parse_log_line
from trawlnet.atproto.identity.plc_log import check_log, fold_log
from trawlnet.atproto.repository.node_plain import key_layer
from trawlnet.malformed import Malformed
from trawlnet.sim.private_key import PrivateKey
from trawlnet.sim.repository.car import read_frames
from trawlnet.sim.repository.mst import build_tree, common_prefix, key_height

FIXTURES = Path(__file__).parents[2] / ".." / "shared" / "fixtures"
INTEROP = FIXTURES / "atproto-interop"

pytestmark = pytest.mark.skipif(
    not INTEROP.is_dir(), reason="no ../shared/fixtures beside the repository: vectors not run"
)


def load(path):
    return json.loads((INTEROP / path).read_text())


def lines(name):
    text = (INTEROP / "syntax" / name).read_text()
    return [line for line in text.split("\n") if line and not line.startswith("#")]


CHECKS = {
    "did": syntax.is_did,
    "nsid": syntax.is_nsid,
    "recordkey": syntax.is_record_key,
    "tid": syntax.is_tid,
    "cid": syntax.is_cid,
    "aturi": lambda text: bool(syntax.AtUri.parse(text)),
}


@pytest.mark.parametrize("kind", CHECKS)
def test_valid_syntax_is_accepted(kind):
    examples = lines(f"{kind}_syntax_valid.txt")
    assert examples and [text for text in examples if not CHECKS[kind](text)] == []


@pytest.mark.parametrize("kind", CHECKS)
def test_invalid_syntax_is_refused(kind):
    def accepts(text):
        try:
            return CHECKS[kind](text)
        except Malformed:
            return False

    examples = lines(f"{kind}_syntax_invalid.txt")
    assert examples and [text[:80] for text in examples if accepts(text)] == []


def from_json(value):
    """The JSON form of the data model, for the vectors only."""
    if isinstance(value, dict):
        if set(value) == {"$link"}:
            return parse_cid(value["$link"])
        if set(value) == {"$bytes"}:
            return b64decode(value["$bytes"] + "=" * (-len(value["$bytes"]) % 4))
        return {key: from_json(item) for key, item in value.items()}
    return [from_json(item) for item in value] if isinstance(value, list) else value


def test_records_encode_to_the_published_bytes_and_cids():
    for row in load("data-model/data-model-fixtures.json"):
        data = b64decode(row["cbor_base64"] + "=" * (-len(row["cbor_base64"]) % 4))
        value = from_json(row["json"])
        assert dagcbor.encode(value) == data
        assert cbor_decoder.decode(data) == value
        assert str(cid_of(data)) == row["cid"]


def test_key_heights_and_common_prefixes():
    for row in load("mst/key_heights.json"):
        assert key_height(row["key"].encode()) == row["height"]
        assert key_layer(row["key"].encode()) == row["height"]
    for row in load("mst/common_prefix.json"):
        assert common_prefix(row["left"].encode(), row["right"].encode()) == row["len"]


def test_example_keys_stand_at_the_height_in_their_name():
    keys = (INTEROP / "mst/example_keys.txt").read_text().split()
    assert len(keys) == 156
    assert all(key_height(key.encode()) == int(key[1]) for key in keys)


def test_trees_have_the_published_roots():
    for row in load("firehose/commit-proof-fixtures.json"):
        leaf = parse_cid(row["leafValue"])
        before = set(row["keys"])
        after = before - set(row["dels"]) | set(row["adds"])
        for keys, root in ((before, row["rootBeforeCommit"]), (after, row["rootAfterCommit"])):
            tree = build_tree([(key.encode(), leaf) for key in sorted(keys)])
            assert str(tree.root) == root
            nodes = dict(tree.nodes)
            walked = [key.decode() for key, _ in walk_tree(tree.root, nodes.__getitem__)]
            assert walked == sorted(keys)


def test_signatures_are_judged_as_published():
    for row in load("crypto/signature-fixtures.json"):
        message, signature = (
            b64decode(row[name] + "=" * (-len(row[name]) % 4))
            for name in ("messageBase64", "signatureBase64")
        )
        key = parse_did_key(row["publicKeyDid"])
        assert key.verifies(signature, message) is row["validSignature"], row["comment"]


def test_private_keys_have_the_published_did_keys():
    for row in load("crypto/w3c_didkey_K256.json"):
        secret = int(row["privateKeyBytesHex"], 16)
        assert PrivateKey(Curve.K256, secret).public.did_key == row["publicDidKey"]
    for row in load("crypto/w3c_didkey_P256.json"):
        secret = int.from_bytes(decode_base58(row["privateKeyBytesBase58"]), "big")
        public = PrivateKey(Curve.P256, secret).public
        assert public.did_key == row["publicDidKey"]
        assert parse_did_key(public.did_key) == public


def blocks_of(name):
    car = (FIXTURES / "car" / name).read_bytes()
    header = read_header(car)
    blocks = {}
    for frame in read_frames(car, header.end):
        data = car[frame.start : frame.end]
        assert matches(frame.cid, data)
        blocks[frame.cid] = data
    return header.roots[0], blocks


def test_a_real_repository_verifies_with_the_key_of_its_document():
    car = (FIXTURES / "car/greenground.repo.car").read_bytes()
    doc = json.loads((FIXTURES / "car/greenground.did.json").read_text())
    # This pair shares a key but not a DID: the commit names another account than the document.
    did = "did:plc:kzcqyc3unb33eh5sxzsfs25z"
    repo = verify_repo(car, did, signing_key(doc))
    assert len(list(repo.records())) == 2
    with pytest.raises(Malformed, match="signature"):
        verify_repo(car, did, PrivateKey(Curve.K256, 7).public)
    with pytest.raises(Malformed, match=f"asked for {doc['id']}"):
        verify_repo(car, doc["id"], signing_key(doc))


def test_a_repository_of_version_2_is_signed_the_same_way_but_refused():
    root, blocks = blocks_of("paul_staging.repo.car")
    doc = json.loads((FIXTURES / "car/paul_staging.did.json").read_text())
    commit = cbor_decoder.decode(blocks[root])
    signature = commit.pop("sig")
    assert signing_key(doc).verifies(signature, dagcbor.encode(commit))
    with pytest.raises(Malformed, match="version 2"):
        parse_commit(blocks[root])


@pytest.mark.parametrize(
    ("name", "records"),
    [
        ("rs_empty.car", 0),
        ("rs_tiny.car", 8),
        ("rs_little.car", 278),
        ("paul_staging.repo.car", 185),
    ],
)
def test_real_trees_walk_to_the_end_and_build_back_to_the_same_root(name, records):
    root, blocks = blocks_of(name)
    data = cbor_decoder.decode(blocks[root])["data"]
    entries = list(walk_tree(data, blocks.__getitem__))
    assert len(entries) == records
    tree = build_tree(entries)
    assert tree.root == data
    for cid, node in tree.nodes:
        assert blocks[cid] == node
    for _, cid in entries:
        value = cbor_decoder.decode(blocks[cid])
        assert dagcbor.encode(value) == blocks[cid]


def test_a_slice_of_a_repository_is_not_taken_for_the_whole():
    root, blocks = blocks_of("repo_slice.car")
    data = cbor_decoder.decode(blocks[root])["data"]
    assert isinstance(data, Cid)
    with pytest.raises(KeyError):
        list(walk_tree(data, blocks.__getitem__))


LOGS = sorted((FIXTURES / "plc").glob("log_*.json"))


@pytest.mark.parametrize("path", LOGS, ids=[path.stem for path in LOGS])
def test_real_plc_logs_fold_with_every_signature_checked(path):
    log = [parse_log_line(row) for row in json.loads(path.read_text())]
    did = log[0].did
    folded = check_log(did, log)
    assert folded.nullified == {entry.cid for entry in log if entry.nullified}
    assert folded == fold_log(did, log)
    last = [entry for entry in log if not entry.nullified][-1]
    assert folded.state.tombstoned == (last.operation["type"] == "plc_tombstone")


def test_a_legacy_create_has_a_pds_and_a_key():
    path = FIXTURES / "plc/log_legacy_dholms.json"
    log = [parse_log_line(row) for row in json.loads(path.read_text())]
    state = check_log(log[0].did, log[:1]).state
    assert state.pds == "https://bsky.social"
    assert state.also_known_as == ("at://dan.bsky.social",)
    assert check_log(log[0].did, log).state.also_known_as == ("at://dholms.xyz",)
