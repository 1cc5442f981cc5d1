"""What a mirror remembers of the newest operations, and how much of it."""

from __future__ import annotations

from trawlnet.crawlers.atproto.operations import Chains
from trawlnet.crawlers.atproto.recent_heads import RecentHeads
from trawlnet.tables.clickhouse.plc_rows import new_row


def batch_of(*links):
    batch = Chains()
    for did, cid, prev, seq in links:
        row = new_row(did, cid, "plc_operation", "", "", "", "", prev, b"{}", False, seq, 1)
        batch.add([row])
    return batch


def test_what_was_learned_last_is_known():
    recent = RecentHeads(4)
    for number in range(20):
        recent.learn(batch_of((f"did:{number}", f"cid{number}", "", number + 1)), stored=number)
        assert recent.known([f"did:{number}", "did:other"]) == {f"did:{number}": f"cid{number}"}
    found = recent.known(f"did:{number}" for number in range(20))
    assert 4 <= len(found) <= 8
    assert f"did:{19 - 3}" in found


def test_of_two_heads_the_later_counts():
    recent = RecentHeads(2)
    recent.learn(batch_of(("a", "1", "", 1), ("b", "1", "", 2), ("c", "1", "", 3)), stored=0)
    recent.learn(batch_of(("a", "2", "1", 4)), stored=3)
    assert recent.known("ac") == {"a": "2", "c": "1"}


def test_what_forks_is_forgotten():
    recent = RecentHeads(2)
    recent.learn(batch_of(("a", "1", "", 1), ("b", "1", "", 2), ("c", "1", "", 3)), stored=0)
    recent.learn(batch_of(("a", "2", "1", 4), ("a", "3", "1", 5), ("c", "4", "1", 6)), stored=3)
    assert recent.known("abc") == {"b": "1", "c": "4"}


def test_what_is_not_newer_than_all_that_was_stored_is_not_learned():
    recent = RecentHeads(2)
    recent.learn(batch_of(("a", "1", "", 3), ("b", "1", "", 4)), stored=3)
    assert recent.known("ab") == {"b": "1"}
