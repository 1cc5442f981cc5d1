"""Trees that break one rule each are refused for it."""

import pytest

from tests.support.repository.reading import parse_node, walk_tree
from trawlnet.atproto import dagcbor
from trawlnet.atproto.cid import cid_of
from trawlnet.malformed import Malformed
from trawlnet.sim.repository.mst import build_tree, key_height

LEAF = cid_of(b"leaf")
# Keys by the height they stand at, in order.
KEYS = {height: [] for height in range(4)}
for number in range(2000):
    key = f"com.example.note/{number:05}".encode()
    if key_height(key) in KEYS:
        KEYS[key_height(key)].append(key)


def entry(key, shared=0, right=None, value=LEAF):
    return {"k": key, "p": shared, "t": right, "v": value}


class Forest:
    """Node blocks written by hand."""

    def __init__(self):
        self.blocks = {}

    def node(self, *entries, left=None):
        data = dagcbor.encode({"l": left, "e": list(entries)})
        cid = cid_of(data)
        self.blocks[cid] = data
        return cid

    def walk(self, root):
        return list(walk_tree(root, self.blocks.__getitem__))


def test_an_empty_tree_is_one_empty_node():
    tree = build_tree([])
    assert [block.cid for block in tree.nodes] == [tree.root]
    assert list(walk_tree(tree.root, dict(tree.nodes).__getitem__)) == []


def test_a_tree_passes_through_levels_without_keys():
    low, high = KEYS[0][0], next(key for key in KEYS[3] if key > KEYS[0][0])
    tree = build_tree([(low, LEAF), (high, LEAF)])
    assert len(tree.nodes) == 4
    assert [key for key, _ in walk_tree(tree.root, dict(tree.nodes).__getitem__)] == [low, high]


def test_keys_out_of_order_cannot_be_built():
    with pytest.raises(ValueError, match="out of order"):
        build_tree([(b"b", LEAF), (b"a", LEAF)])
    with pytest.raises(ValueError, match="out of order"):
        build_tree([(b"a", LEAF), (b"a", LEAF)])


def test_a_bare_pointer_at_the_top_is_refused():
    forest = Forest()
    below = forest.node(entry(KEYS[0][0]))
    with pytest.raises(Malformed, match="bare pointer"):
        forest.walk(forest.node(left=below))


def test_an_empty_node_below_the_top_is_refused():
    forest = Forest()
    with pytest.raises(Malformed, match="empty node"):
        forest.walk(forest.node(entry(KEYS[1][0]), left=forest.node()))


def test_a_subtree_below_the_leaves_is_refused():
    forest = Forest()
    below = forest.node(entry(KEYS[0][0]))
    with pytest.raises(Malformed, match="below the leaves"):
        forest.walk(forest.node(entry(KEYS[0][1]), left=below))


def test_a_key_on_the_wrong_level_is_refused():
    forest = Forest()
    first, second = KEYS[0][0], next(key for key in KEYS[1] if key > KEYS[0][0])
    shared = parse_shared(first, second)
    with pytest.raises(Malformed, match="height 1 on level 0"):
        forest.walk(forest.node(entry(first), entry(second[shared:], shared)))


def test_a_child_more_than_one_level_down_is_refused():
    forest = Forest()
    high = next(key for key in KEYS[2] if key > KEYS[0][0])
    with pytest.raises(Malformed, match="height 0 on level 1"):
        forest.walk(forest.node(entry(high), left=forest.node(entry(KEYS[0][0]))))


def test_a_subtree_out_of_order_is_refused():
    forest = Forest()
    top = KEYS[1][0]
    late = next(key for key in KEYS[0] if key > top)
    with pytest.raises(Malformed, match="out of order"):
        forest.walk(forest.node(entry(top), left=forest.node(entry(late))))


def test_the_same_subtree_twice_is_refused():
    forest = Forest()
    low = KEYS[0][0]
    top = next(key for key in KEYS[1] if key > low)
    below = forest.node(entry(low))
    with pytest.raises(Malformed, match="out of order"):
        forest.walk(forest.node(entry(top, right=below), left=below))


def parse_shared(one, other):
    return next(at for at in range(len(one)) if one[at] != other[at])


@pytest.mark.parametrize(
    ("node", "complaint"),
    [
        ({"l": None}, "fields e and l"),
        ({"l": None, "e": [], "x": 1}, "fields e and l"),
        ({"l": 1, "e": []}, "wrong type"),
        ({"l": None, "e": {}}, "wrong type"),
        ({"l": None, "e": [1]}, "k, p, t and v"),
        ({"l": None, "e": [{"k": b"a", "p": 0, "v": LEAF}]}, "k, p, t and v"),
        ({"l": None, "e": [entry("a")]}, "wrong type"),
        ({"l": None, "e": [entry(b"a", True)]}, "wrong type"),
        ({"l": None, "e": [entry(b"a", value=None)]}, "wrong type"),
        ({"l": None, "e": [entry(b"a", right=b"x")]}, "not a link"),
        ({"l": None, "e": [entry(b"a", 1)]}, "shares 1 bytes"),
        ({"l": None, "e": [entry(b"a", -1)]}, "shares -1 bytes"),
        ({"l": None, "e": [entry(b"a"), entry(b"b", 2)]}, "shares 2 bytes"),
        ({"l": None, "e": [entry(b"b"), entry(b"a")]}, "out of order"),
        ({"l": None, "e": [entry(b"a"), entry(b"", 1)]}, "out of order"),
        ({"l": None, "e": [entry(b"aa"), entry(b"ab")]}, "share all it could"),
        ([], "fields e and l"),
    ],
)
def test_a_node_of_the_wrong_form_is_refused(node, complaint):
    with pytest.raises(Malformed, match=complaint):
        parse_node(dagcbor.encode(node))
