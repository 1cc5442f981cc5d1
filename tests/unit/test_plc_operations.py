"""What operations mean for their DIDs: the shared logs, and chains cut into batches at random."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trawlnet.atproto.identity.instants import microseconds
from trawlnet.atproto.identity.plc import parse_log_line
from trawlnet.atproto.identity.plc_chain import ChainLink, fold_links
from trawlnet.atproto.identity.plc_log import fold_log
from trawlnet.crawlers.atproto.operations import (
    UNREADABLE,
    Chains,
    fold,
    read_line,
)
from trawlnet.crawlers.atproto.recent_heads import RecentHeads
from trawlnet.malformed import Malformed
from trawlnet.tables.clickhouse.plc_rows import link_of, order_of

LOGS = Path(__file__).parents[2].parent / "shared" / "fixtures" / "plc"


class TableOfLinks:
    """What the tables would hold, in memory."""

    def __init__(self):
        self.links = {}
        self.heads = {}
        self.recent = RecentHeads(2)

    def store(self, rows, cursor=0):
        batch = Chains()
        batch.add(rows)
        building_on = batch.building_on()
        known = {did: self.heads[did].cid for did in building_on if did in self.heads}
        known |= self.recent.known(building_on)
        heads = batch.plain_heads(known)
        odd = batch.odd_groups(rows)
        stored = {did: list(self.links.get(did, {}).values()) for did in odd}
        changes = fold(odd, stored)
        for row in rows:
            before = self.links.setdefault(row.did, {}).get(row.cid)
            if before is None or not before.nullified:
                self.links[row.did][row.cid] = link_of(row)
        for did, cid in changes.undone:
            self.links[did][cid] = self.links[did][cid]._replace(nullified=True)
        for row in heads + changes.heads:
            if row.did not in self.heads or order_of(self.heads[row.did]) <= order_of(row):
                self.heads[row.did] = row
        self.recent.learn(batch, stored=cursor)

    def nullified(self, did):
        return {cid for cid, link in self.links[did].items() if link.nullified}


def numbered(log, *, flags=False):
    for seq, line in enumerate(log, start=1):
        entry = {name: line[name] for name in ("did", "cid", "operation", "createdAt")}
        yield entry | ({"nullified": line["nullified"]} if flags else {"seq": seq})


@pytest.mark.parametrize("flags", [False, True], ids=["by seq", "by time"])
@pytest.mark.parametrize("size", [1, 2, 1000])
@pytest.mark.parametrize(
    "name",
    [
        "bskyapp",
        "duplicate_rotation_keys",
        "legacy_dholms",
        "nullification",
        "nullified_tombstone",
        "tombstone",
    ],
)
def test_the_shared_logs_fold_as_their_directory_says(name, size, flags):
    path = LOGS / f"log_{name}.json"
    if not path.exists():
        pytest.skip(f"{path.name} is not among the shared fixtures")
    log = json.loads(path.read_text())
    did = log[0]["did"]
    rows = [read_line(line, allow_private=False) for line in numbered(log, flags=flags)]
    table = TableOfLinks()
    for at in range(0, len(rows), size):
        table.store(rows[at : at + size])
    expected = fold_log(did, [parse_log_line(line) for line in log])
    assert table.nullified(did) == {line["cid"] for line in log if line["nullified"]}
    assert table.nullified(did) == expected.nullified
    head = table.heads[did]
    assert head.cid == [line["cid"] for line in log if not line["nullified"]][-1]
    assert (head.operation_type == "plc_tombstone") == expected.state.tombstoned
    if not expected.state.tombstoned:
        assert head.signing_key == expected.state.verification_methods.get("atproto", "")
        named = [name for name in expected.state.also_known_as if name.startswith("at://")]
        assert head.handle == (named[0].removeprefix("at://") if named else "")


def made_chain(rng, did, length):
    """A history with forks: each operation follows one that stands, mostly the newest."""
    alive, rows, undone = [], [], set()
    for number in range(length):
        kept = len(alive) if rng.random() < 0.6 else rng.randint(min(1, len(alive)), len(alive))
        cid = f"bafyrei{did[-4:]}{number:08}"
        rows.append((cid, alive[kept - 1] if kept else None))
        undone.update(alive[kept:])
        alive[kept:] = [cid]
    return rows, alive[-1], undone


def line_of(did, cid, prev, seq):
    operation = {"type": "plc_tombstone", "prev": prev, "sig": ""}
    return {
        "did": did,
        "cid": cid,
        "operation": operation,
        "seq": seq,
        "createdAt": "2024-01-01T00:00:00.000Z",
    }


@given(st.integers(0, 10**9))
def test_batches_of_any_size_and_crashes_in_between_change_nothing(seed):
    rng = random.Random(seed)
    chains = {
        f"did:plc:{n:04}": made_chain(rng, f"did:plc:{n:04}", rng.randint(1, 8))
        for n in range(rng.randint(1, 5))
    }
    queues = {did: list(rows) for did, (rows, _, _) in chains.items()}
    lines = []
    while queues:
        did = rng.choice(list(queues))
        cid, prev = queues[did].pop(0)
        lines.append(line_of(did, cid, prev, len(lines) + 1))
        if not queues[did]:
            del queues[did]
    table, cursor = TableOfLinks(), 0
    while cursor < len(lines):
        end = min(len(lines), cursor + rng.randint(1, 6))
        # Rows are marked when they are folded, so each telling needs rows of its own.
        table.store([read_line(line, allow_private=False) for line in lines[cursor:end]], cursor)
        if rng.random() < 0.7:
            cursor = end
        else:  # Killed before the cursor was saved.
            table.recent = RecentHeads(2)
    for did, (_, head, undone) in chains.items():
        assert table.heads[did].cid == head
        assert table.nullified(did) == undone


def test_operations_of_one_instant_are_put_in_order_by_their_links():
    links = [ChainLink("c", "b", 5), ChainLink("a", "", 5), ChainLink("b", "a", 5)]
    assert fold_links(links).head == "c"
    assert fold_links(links).nullified == frozenset()


def test_a_hole_in_a_chain_is_counted_and_a_circle_ends():
    holed = fold_links([ChainLink("a", "", 1), ChainLink("c", "b", 3)])
    assert (holed.head, holed.orphans) == ("c", 1)
    circle = fold_links([ChainLink("a", "b", 1), ChainLink("b", "a", 1)])
    assert circle.head in ("a", "b")
    assert fold_links([]).head == ""


def plain_line(**changes):
    operation = {
        "type": "plc_operation",
        "rotationKeys": [],
        "verificationMethods": {"atproto": "did:key:zQ3sh"},
        "alsoKnownAs": ["https://elsewhere", "at://me.bsky.social"],
        "services": {
            "atproto_pds": {
                "type": "AtprotoPersonalDataServer",
                "endpoint": "https://PDS.bsky.social/",
            }
        },
        "prev": None,
        "sig": "x",
    }
    line = {
        "did": "did:plc:abc",
        "cid": "bafyreiabcdef",
        "createdAt": "2024-01-01T00:00:00.001Z",
        "seq": 7,
        "operation": operation,
    }
    return line | changes


def test_a_line_becomes_a_row():
    row = read_line(plain_line(), allow_private=False)
    assert (row.handle, row.pds, row.signing_key) == (
        "me.bsky.social",
        "https://pds.bsky.social",
        "did:key:zQ3sh",
    )
    assert (row.seq, order_of(row), row.time_us) == (7, 7, 1_704_067_200_001_000)
    assert json.loads(row.operation_json) == plain_line()["operation"]


@pytest.mark.parametrize(
    "operation",
    [
        {"type": "plc_operation", "prev": None},
        {"type": "something_new", "prev": None, "services": 7},
        {"prev": None},
    ],
)
def test_an_operation_that_says_nothing_we_understand_is_kept_without_a_pds(operation):
    row = read_line(plain_line(operation=operation), allow_private=False)
    assert (row.pds, row.pds_refused) == ("", UNREADABLE)
    assert json.loads(row.operation_json) == operation


@pytest.mark.parametrize(
    "line",
    [
        None,
        7,
        "x",
        [],
        {},
        plain_line(did="nobody"),
        plain_line(cid=7),
        plain_line(cid="x"),
        plain_line(createdAt="yesterday"),
        plain_line(createdAt="2024-01-01T00:00:00"),
        plain_line(createdAt="1931-01-01T00:00:00Z"),
        plain_line(seq=-1),
        plain_line(seq=1 << 70),
        plain_line(seq=True),
        plain_line(seq="7"),
        plain_line(nullified="no"),
        plain_line(operation={"type": "plc_tombstone", "prev": 7}),
    ],
)
def test_a_line_that_is_none_is_malformed(line):
    with pytest.raises(Malformed):
        read_line(line, allow_private=False)


def test_an_operation_nested_too_deep_to_be_written_is_malformed():
    nested = []
    for _ in range(400):
        nested = [nested]
    operation = {"type": "plc_operation", "prev": None, "x": nested}
    with pytest.raises(Malformed):
        read_line(plain_line(operation=operation), allow_private=False)


def test_microseconds_are_exact():
    assert microseconds("2022-11-17T06:31:40.296Z") == 1_668_666_700_296_000
    assert microseconds("2022-11-17T06:31:40.296001+01:00") == 1_668_663_100_296_001
