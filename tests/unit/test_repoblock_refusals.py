"""Repositories that must be refused, and the limits that hold for every other."""

from __future__ import annotations

import time

import pytest

from tests.support.repos.extractors import (
    BACKENDS,
    FIXTURES,
    UNVERIFIED,
    Extract,
    needs_fixtures,
    records_of,
    refusal,
)
from tests.support.repos.made_repos import DID, REV, SOME_CID, NoKey, field, make_car
from trawlnet.archive.format import repoblock_plain
from trawlnet.archive.format.content import DropReason, ExtractOptions, RepoError, RepoErrorKind
from trawlnet.atproto.cid import Cid, cid_of
from trawlnet.atproto.dagcbor import encode, head
from trawlnet.atproto.repository.node_plain import key_layer
from trawlnet.sim.repository.car import CarBlock, car_frame, car_header, write_car
from trawlnet.sim.repository.commit import Commit
from trawlnet.sim.repository.repo import build_repo_of_blocks

LIKE = encode({"$type": "app.bsky.feed.like"})


@pytest.fixture(params=BACKENDS)
def extract(request: pytest.FixtureRequest) -> Extract:
    found: Extract = request.param
    return found


@needs_fixtures
@pytest.mark.parametrize("name", ["divy.repo", "paul_staging.repo", "repo_slice"])
def test_commits_of_version_2_are_refused(extract: Extract, name: str) -> None:
    car = (FIXTURES / "car" / f"{name}.car").read_bytes()
    assert refusal(extract, car) is RepoErrorKind.UNSUPPORTED_VERSION


def test_every_cut_inside_a_frame_is_truncated_and_between_frames_is_missing_blocks(
    extract: Extract,
) -> None:
    repo = build_repo_of_blocks(
        DID, {f"a.b.c/{n}": field(head(0, n)) for n in range(9)}, NoKey(), REV
    )
    car = repo.car()
    edges = {len(car_header([repo.head]))}
    for block in repo.blocks:
        edges.add(max(edges) + len(car_frame(*block)))
    assert max(edges) == len(car)
    for size in range(len(car)):
        expected = RepoErrorKind.MISSING_BLOCK if size in edges else RepoErrorKind.TRUNCATED
        assert refusal(extract, car[:size]) is expected


def test_a_changed_byte_in_any_block_is_a_hash_mismatch(extract: Extract) -> None:
    car = make_car({"a.b.c/1": LIKE, "a.b.c/2": field(b"\x01")})
    for at in range(len(car) - 40, len(car)):
        damaged = bytearray(car)
        damaged[at] ^= 1
        assert refusal(extract, bytes(damaged), ExtractOptions()) is RepoErrorKind.HASH_MISMATCH


def test_an_unreferenced_block_is_ignored_but_its_hash_is_checked(extract: Extract) -> None:
    car = make_car({"a.b.c/1": LIKE})
    extra = CarBlock(cid_of(b"extra", 0x55), b"extra")
    assert extract(car + car_frame(*extra), ExtractOptions()).records == 1
    lying = car + car_frame(extra.cid, b"Extra")
    assert refusal(extract, lying, ExtractOptions()) is RepoErrorKind.HASH_MISMATCH
    assert extract(lying, UNVERIFIED).records == 1


def test_a_block_under_another_hash_cannot_be_a_record(extract: Extract) -> None:
    odd = Cid(b"\x01\x71\x13\x40" + bytes(64))
    node = encode({"e": [entry(b"a.b.c/x", odd)], "l": None})
    content = extract(tree_car([node]) + car_frame(odd, LIKE), ExtractOptions())
    assert (content.records, content.dropped) == (0, {DropReason.BAD_CID: 1})


@pytest.mark.parametrize(
    "car",
    [
        b"\x00",
        b"\x80\x00",
        b"\x01\xa0",
        b"\xff" * 9 + b"\x01",
        car_header([]),
        car_header([Cid(b"\x01\x55\x12\x20" + bytes(32))]),
        car_header([SOME_CID]).replace(b"\x67version\x01", b"\x67version\x02"),
        car_header([SOME_CID]) + b"\x00",
        car_header([SOME_CID]) + b"\x85\x00" + b"\x01\x71\x12\x20a",
        car_header([SOME_CID]) + b"\x05\x01\x71\x12\x20a",
        car_header([SOME_CID]) + b"\x22\x12\x20" + bytes(32),
    ],
)
def test_bytes_that_are_no_car_are_refused(extract: Extract, car: bytes) -> None:
    assert refusal(extract, car) is RepoErrorKind.BAD_CAR


def test_a_car_without_blocks_lacks_its_commit(extract: Extract) -> None:
    assert refusal(extract, car_header([SOME_CID])) is RepoErrorKind.MISSING_BLOCK


COMMIT = {"did": DID, "version": 3, "data": SOME_CID, "rev": REV, "prev": None, "sig": bytes(64)}


@pytest.mark.parametrize(
    "changes",
    [
        {"did": "nobody"},
        {"did": b"did:plc:x"},
        {"rev": "not-a-tid"},
        {"rev": "3" * 14},
        {"sig": bytes(63)},
        {"data": "text"},
        {"data": Cid(b"\x01\x55\x12\x20" + bytes(32))},
        {"version": "3"},
        *({name: ...} for name in ("did", "rev", "sig", "data", "version")),
        {f"extra{n}": n for n in range(20)},
    ],
)
def test_a_commit_of_the_wrong_form_is_refused(
    extract: Extract, changes: dict[str, object]
) -> None:
    fields = {name: value for name, value in {**COMMIT, **changes}.items() if value is not ...}
    assert refusal(extract, commit_car(encode(fields))) is RepoErrorKind.BAD_COMMIT


@pytest.mark.parametrize("name", ["did", "rev", "sig", "data", "version"])
def test_a_commit_with_a_field_twice_is_refused(extract: Extract, name: str) -> None:
    """One reader would take the first, another the last, and both find it signed."""
    once = encode(COMMIT)
    assert once[0] >> 5 == 5
    again = bytes((once[0] + 1,)) + once[1:] + encode(name) + encode(COMMIT[name])
    assert refusal(extract, commit_car(again)) is RepoErrorKind.BAD_COMMIT


def test_of_two_blocks_of_one_name_the_first_counts(extract: Extract) -> None:
    """Where hashes are not asked for, both may claim to be it."""
    repo = build_repo_of_blocks(DID, {"a.b.c/x": LIKE}, NoKey(), REV)
    name = cid_of(LIKE)
    first = [CarBlock(name, field(head(0, 1))), CarBlock(name, field(head(0, 2)))]
    others = [block for block in repo.blocks if block.cid != name]
    car = write_car([repo.head], [*first, *others])
    assert records_of(extract(car, UNVERIFIED)) == {"a.b.c/x": b'{"v":1}'}
    assert refusal(extract, car, ExtractOptions()) is RepoErrorKind.HASH_MISMATCH


@needs_fixtures
@pytest.mark.parametrize(("kind", "field_name"), [("did", "did"), ("tid", "rev")])
def test_published_dids_and_tids_are_judged_as_published(
    extract: Extract, kind: str, field_name: str
) -> None:
    for judged in ("valid", "invalid"):
        path = FIXTURES / "atproto-interop" / "syntax" / f"{kind}_syntax_{judged}.txt"
        for line in path.read_text().splitlines():
            if line and line[0] != "#":
                car = commit_car(encode({**COMMIT, field_name: line}))
                # A sound commit is believed, and then its tree is missed.
                sound = refusal(extract, car) is RepoErrorKind.MISSING_BLOCK
                assert sound == (judged == "valid"), line


@pytest.mark.parametrize("version", [0, 2, 4, 2**64 - 1])
def test_another_repo_version_is_named_as_such(extract: Extract, version: int) -> None:
    car = commit_car(encode({**COMMIT, "version": version}))
    assert refusal(extract, car) is RepoErrorKind.UNSUPPORTED_VERSION


def commit_car(commit: bytes) -> bytes:
    root = cid_of(commit)
    return write_car([root], [CarBlock(root, commit)])


def entry(key: bytes, value: Cid, prefix: int = 0, tree: Cid | None = None) -> dict[str, object]:
    return {"k": key, "p": prefix, "t": tree, "v": value}


def tree_car(nodes: list[bytes], *others: CarBlock) -> bytes:
    """A CAR around tree nodes given as bytes, the first of them the root."""
    commit = Commit(DID, cid_of(nodes[0]), REV, sig=bytes(64)).encode()
    blocks = [CarBlock(cid_of(data), data) for data in [commit, *nodes, LIKE]]
    return write_car([blocks[0].cid], [*blocks, *others])


VALUE = cid_of(LIKE)
# Named for how many pairs of zero bits their SHA-256 begins with.
LAYER_0, LAYER_0_LATER, LAYER_1, LAYER_2 = b"a.b.c/ab", b"a.b.c/ac", b"a.b.c/ad", b"a.b.c/az"


def test_the_keys_of_these_tests_have_the_layers_they_claim() -> None:
    assert [key_layer(key) for key in (LAYER_0, LAYER_0_LATER, LAYER_1, LAYER_2)] == [0, 0, 1, 2]


LEAF = encode({"e": [entry(LAYER_0, VALUE)], "l": None})
EMPTY = encode({"e": [], "l": None})
BAD_TREES = {
    "keys out of order": [
        encode({"e": [entry(LAYER_0_LATER, VALUE), entry(LAYER_0, VALUE)], "l": None})
    ],
    "the same key twice": [
        encode({"e": [entry(LAYER_0, VALUE), entry(b"", VALUE, prefix=8)], "l": None})
    ],
    "a prefix on the first key": [encode({"e": [entry(LAYER_0, VALUE, prefix=1)], "l": None})],
    "a prefix beyond the key before": [
        encode({"e": [entry(LAYER_0, VALUE), entry(b"x", VALUE, prefix=9)], "l": None})
    ],
    "an empty key": [encode({"e": [entry(b"", VALUE)], "l": None})],
    "a key too long": [encode({"e": [entry(b"a.b.c/" + b"x" * 1100, VALUE)], "l": None})],
    "keys of two layers in a node": [
        encode({"e": [entry(LAYER_0, VALUE), entry(LAYER_1, VALUE)], "l": None})
    ],
    "a leaf with a subtree": [encode({"e": [entry(LAYER_0, VALUE)], "l": cid_of(LEAF)}), LEAF],
    "a child of the wrong layer": [
        encode({"e": [entry(LAYER_2, VALUE)], "l": cid_of(LEAF)}),
        LEAF,
    ],
    "a subtree before its place": [
        encode({"e": [entry(LAYER_1, VALUE, tree=cid_of(LEAF))], "l": None}),
        LEAF,
    ],
    "an empty node below the root": [
        encode({"e": [entry(LAYER_1, VALUE)], "l": cid_of(EMPTY)}),
        EMPTY,
    ],
    "a root that is only a pointer": [encode({"e": [], "l": cid_of(LEAF)}), LEAF],
    "a node that is no map": [encode([])],
    "a node with more fields": [encode({"e": [], "l": None, "x": 1})],
    "bytes behind a node": [EMPTY + b"\x00"],
    "a count that lies": [b"\xa2\x61e\x9b" + b"\xff" * 8],
    "an entry without a value": [encode({"e": [{"k": LAYER_0, "p": 0, "t": None}], "l": None})],
    "a value that is no link": [
        encode({"e": [{"k": LAYER_0, "p": 0, "t": None, "v": 1}], "l": None})
    ],
}


@pytest.mark.parametrize("what", sorted(BAD_TREES))
def test_a_bad_tree_costs_the_repo(extract: Extract, what: str) -> None:
    assert refusal(extract, tree_car(BAD_TREES[what]), ExtractOptions()) is RepoErrorKind.BAD_TREE


@pytest.mark.parametrize("what", sorted(BAD_TREES))
def test_only_layers_go_unchecked_with_the_hashes(extract: Extract, what: str) -> None:
    car = tree_car(BAD_TREES[what])
    if what in ("keys of two layers in a node", "a child of the wrong layer"):
        assert extract(car, UNVERIFIED).records == 2
    else:
        assert refusal(extract, car) is RepoErrorKind.BAD_TREE


@pytest.mark.parametrize(("steps", "taken"), [(127, True), (128, False)])
def test_a_tree_is_no_deeper_than_there_are_layers(
    extract: Extract, steps: int, taken: bool
) -> None:
    nodes = [LEAF]
    for _ in range(steps):
        nodes.append(encode({"e": [], "l": cid_of(nodes[-1])}))
    nodes.append(encode({"e": [entry(LAYER_1, VALUE)], "l": cid_of(nodes[-1])}))
    car = tree_car(nodes[::-1])
    if taken:
        assert extract(car, UNVERIFIED).records == 2
    else:
        assert refusal(extract, car) is RepoErrorKind.BAD_TREE
    assert refusal(extract, car, ExtractOptions()) is RepoErrorKind.BAD_TREE


def test_a_node_in_two_places_is_refused_however_its_keys_lie(extract: Extract) -> None:
    # Without keys of its own a node could stand under each of many others, at every depth.
    step = encode({"e": [], "l": cid_of(LEAF)})
    root = encode({"e": [entry(LAYER_2, VALUE, tree=cid_of(step))], "l": cid_of(step)})
    assert refusal(extract, tree_car([root, step, LEAF])) is RepoErrorKind.BAD_TREE


def test_a_sound_tree_of_hand_made_nodes_is_read(extract: Extract) -> None:
    root = encode({"e": [entry(LAYER_1, VALUE)], "l": cid_of(LEAF)})
    content = extract(tree_car([root, LEAF]), ExtractOptions())
    assert list(records_of(content)) == ["a.b.c/ab", "a.b.c/ad"]


@pytest.mark.parametrize("missing", [VALUE, cid_of(LEAF)])
def test_a_missing_record_or_node_costs_the_repo(extract: Extract, missing: Cid) -> None:
    root = encode({"e": [entry(LAYER_1, VALUE)], "l": cid_of(LEAF)})
    commit = Commit(DID, cid_of(root), REV, sig=bytes(64)).encode()
    blocks = [CarBlock(cid_of(data), data) for data in (commit, root, LEAF, LIKE)]
    car = write_car([blocks[0].cid], [block for block in blocks if block.cid != missing])
    assert refusal(extract, car) is RepoErrorKind.MISSING_BLOCK


def test_a_tree_that_contains_itself_ends(extract: Extract) -> None:
    # With hashes unchecked a node can name itself.
    itself, other = (Cid(b"\x01\x71\x12\x20" + digit * 32) for digit in (b"\x07", b"\x08"))
    step = encode({"e": [], "l": itself})
    for loop in (
        encode({"e": [entry(LAYER_1, VALUE)], "l": itself}),
        encode({"e": [entry(LAYER_1, VALUE, tree=itself)], "l": None}),
        encode({"e": [], "l": itself}),
        encode({"e": [entry(LAYER_1, VALUE)], "l": other}),
        encode({"e": [entry(LAYER_1, VALUE, tree=other)], "l": None}),
    ):
        commit = Commit(DID, itself, REV, sig=bytes(64)).encode()
        blocks = [CarBlock(cid_of(commit), commit), CarBlock(itself, loop), CarBlock(other, step)]
        car = write_car([cid_of(commit)], [*blocks, CarBlock(VALUE, LIKE)])
        assert refusal(extract, car) is RepoErrorKind.BAD_TREE


# Limits.


def test_output_beyond_the_memory_limit_costs_the_repo(extract: Extract) -> None:
    record = encode({"t": "x" * 10_000})
    car = make_car({f"a.b.c/{n}": record for n in range(1000)})
    limit = ExtractOptions(memory_limit=1_000_000)
    assert refusal(extract, car, limit) is RepoErrorKind.OVER_LIMIT
    assert extract(car, ExtractOptions()).records == 1000


def test_the_memory_limit_is_exact_and_the_same_for_both(extract: Extract) -> None:
    repo = build_repo_of_blocks(DID, {f"a.b.c/{n}": LIKE for n in range(40)}, NoKey(), REV)
    car = repo.car()
    low, high = 0, 1 << 20
    while high - low > 1:
        middle = (low + high) // 2
        try:
            extract(car, ExtractOptions(memory_limit=middle))
            high = middle
        except RepoError:
            low = middle
    content = extract(car, ExtractOptions())
    assert high == 64 * len(repo.blocks) + 64 + len("a.b.c") + len(content.collections[0].data)


def test_a_block_under_many_keys_is_read_once(
    extract: Extract, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its output is small, since the `cid` is stripped: only the reading would cost.
    record = encode({"cid": "\u0001" * 1_000_000, "uri": "u"})
    read: list[int] = []
    by_hand = repoblock_plain.record_json

    def counted(data: bytes, *, keep_cids: bool) -> bytes:
        read.append(len(data))
        return by_hand(data, keep_cids=keep_cids)

    monkeypatch.setattr(repoblock_plain, "record_json", counted)
    alone = seconds_to(extract, make_car({"a.b.c/0": record}))
    read.clear()
    car = make_car({f"a.b.c/{n}": record for n in range(400)})
    assert seconds_to(extract, car) < 100 * alone
    content = extract(car, ExtractOptions(memory_limit=100_000))
    assert content.records == 400
    assert set(records_of(content).values()) == {b'{"uri":"u"}'}
    assert len(read) == (4 if extract is repoblock_plain.extract else 0)


@pytest.mark.parametrize("kind", ["subnormal", "just subnormal", "largest", "halfway"])
def test_no_number_costs_much_more_than_another(extract: Extract, kind: str) -> None:
    """Written digit by digit, a subnormal took a thousand times as long as any other."""
    firsts = {"subnormal": 1, "just subnormal": 0x000F_FFFF_FFFF_0000, "halfway": 0x3FE << 52}
    first = firsts.get(kind, 0x7FEF_FFFF_FFFF_0000)
    usual, odd = numbers_car(0x3FB9_9999_9999_0000), numbers_car(first)
    room = 10_000_000
    assert seconds_to(extract, odd, room) < 0.01 + 20 * seconds_to(extract, usual, room)


def numbers_car(first: int) -> bytes:
    """A record of doubles, from the one with these bits on."""
    doubles = b"".join(b"\xfb" + (first + n * 37).to_bytes(8) for n in range(5_000))
    return make_car({"a.b.c/0": field(head(4, 5_000) + doubles)})


def seconds_to(extract: Extract, car: bytes, memory_limit: int = 100_000) -> float:
    """Of the processor, whatever else it does."""
    taken = []
    for _ in range(3):
        begun = time.process_time()
        extract(car, ExtractOptions(memory_limit=memory_limit))
        taken.append(time.process_time() - begun)
    return min(taken)


def test_a_block_read_again_is_charged_for_what_it_writes(extract: Extract) -> None:
    record = encode({"text": "x" * 1000})
    car = make_car({f"a.b.c/{n:03}": record for n in range(100)})
    whole = extract(car, ExtractOptions())
    assert set(records_of(whole).values()) == {b'{"text":"%s"}' % (b"x" * 1000)}
    assert refusal(extract, car, ExtractOptions(memory_limit=90_000)) is RepoErrorKind.OVER_LIMIT


def test_too_many_collections_cost_the_repo(
    extract: Extract, monkeypatch: pytest.MonkeyPatch
) -> None:
    if extract is repoblock_plain.extract:
        monkeypatch.setattr(repoblock_plain, "MAX_COLLECTIONS", 3)
        count = 4
    else:
        count = 65_536
    digits = {f"a.b.c{n}/x": LIKE for n in range(count)}
    assert refusal(extract, make_car(digits)) is RepoErrorKind.OVER_LIMIT
