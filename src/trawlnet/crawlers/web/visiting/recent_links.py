"""Links met lately, so that most of a page's links cost neither a task nor a look at the disk."""

from __future__ import annotations

from collections.abc import Iterable

_KEPT = 200_000  # Of each generation; a key takes about 130 bytes.
REFUSED = -1  # Closer than any depth: a refused link is not looked at again.


class Recent:
    """Keys by hash, each with the lowest depth it was met with. Two generations: a key that is
    met again moves to the younger one, and the older one is dropped when the younger is full.

    Forgetting is harmless, because the store knows every key; remembering is, too, because a
    process that dies before a link is stored forgets it with everything else. Two keys with one
    hash of 64 bits, seeded anew in each process, would hide a page: at 10^8 links the odds of
    that are about two in a million.
    """

    def __init__(self, kept: int = _KEPT) -> None:
        self._kept = kept
        self._young: dict[int, int] = {}
        self._old: dict[int, int] = {}

    def news(self, keys: Iterable[str], depth: int) -> list[int]:
        """Which of these are worth a task: not met, or only further away. All are met now."""
        found = []
        young, old = self._young, self._old
        for number, key in enumerate(keys):
            digest = hash(key)
            known = young.get(digest)
            if known is None:
                known = old.get(digest)
                if known is not None:
                    young[digest] = known
            if known is None or depth < known:
                young[digest] = depth
                found.append(number)
        if len(young) > self._kept:
            self._young, self._old = {}, young
        return found

    def refuse(self, key: str) -> None:
        self._young[hash(key)] = REFUSED
