"""Where to cut a page that a tree builder would choke on.

HTML's rules look through all open elements at most tags, compare each attribute of a tag with all
before it, and repeat open formatting elements in every new paragraph: a small page can ask for
hours or gigabytes. This estimates that work from the tags alone, in one pass.
"""

from __future__ import annotations

import re

# A page with fewer tags and bytes than this cannot cost more than about a tenth of a second.
_FEW_TAGS = 600
_FEW_BYTES = 32 << 10

_MOST_WORK = 100_000_000  # Steps of the tree builder, about 5 ns each.
_MOST_OPEN = 2000  # Elements; browsers stop at 512.
_MOST_ATTRIBUTES = 2000  # Of one tag.
_MOST_SAME = 3
_PER_REPEAT = 300  # Steps that one repeated formatting element is worth, in time and memory.

_SPACE = rb"[\t\n\f\r /]"
_VALUE = rb"\"[^\"]*+\"?+|'[^']*+'?+|[^\t\n\f\r >\"'][^\t\n\f\r >]*+"
_ATTRIBUTE = (
    rb"[^\t\n\f\r />][^\t\n\f\r />=]*+(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+(?:" + _VALUE + rb")?+)?+"
)
_TAG = re.compile(
    rb"<(/?)([a-zA-Z][^\t\n\f\r />]*+)((?:" + _SPACE + rb"++|" + _ATTRIBUTE + rb")*+)"
)
_ONE_ATTRIBUTE = re.compile(_ATTRIBUTE)

# Never open for long: they have no content, or the next of their kind ends them.
_FLAT = frozenset(
    b"area base br col embed hr img input link meta param source track wbr"
    b" p li dt dd option optgroup tr td th thead tbody tfoot colgroup rb rt rtc rp a".split()
)
_FORMATTING = frozenset(b"b big code em font i nobr s small strike strong tt u".split())


def affordable(page: bytes) -> bytes:
    """The page, or as much of its beginning as can be parsed in bounded time and memory."""
    # What is left without them says how many there are: `count` goes byte by byte.
    if len(page) <= _FEW_BYTES and len(page) - len(page.replace(b"<", b"")) <= _FEW_TAGS:
        return page
    opened: dict[bytes, int] = {}
    formatting = _Formatting()
    depth = work = 0
    for tag in _TAG.finditer(page):
        closing, name, attributes = tag.groups()
        name = name.lower()
        if closing:
            if opened.get(name, 0):
                opened[name] -= 1
                depth -= 1
                formatting.closed(name)
        elif name not in _FLAT:
            opened[name] = opened.get(name, 0) + 1
            depth += 1
            formatting.opened(name, attributes)
        work += depth + formatting.repeats * _PER_REPEAT
        if work > _MOST_WORK or depth > _MOST_OPEN or _too_many(attributes):
            return page[: tag.start()]
    return page


class _Formatting:
    """How many open formatting elements each new block repeats: at most three of the same."""

    def __init__(self) -> None:
        self.repeats = 0
        self._open: dict[bytes, list[bytes]] = {name: [] for name in _FORMATTING}
        self._same: dict[bytes, int] = {}

    def opened(self, name: bytes, attributes: bytes) -> None:
        if name in self._open:
            kind = name + b" " + attributes
            self._open[name].append(kind)
            self._same[kind] = self._same.get(kind, 0) + 1
            self.repeats += self._same[kind] <= _MOST_SAME

    def closed(self, name: bytes) -> None:
        if name in self._open:
            kind = self._open[name].pop()
            self.repeats -= self._same[kind] <= _MOST_SAME
            self._same[kind] -= 1


def _too_many(attributes: bytes) -> bool:
    if len(attributes) < 2 * _MOST_ATTRIBUTES:
        return False
    found = enumerate(_ONE_ATTRIBUTE.finditer(attributes))
    return any(number >= _MOST_ATTRIBUTES for number, _ in found)
