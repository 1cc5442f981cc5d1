"""Paragraphs to fill pages with: made once for a seed, then only picked from."""

from __future__ import annotations

import random
from functools import lru_cache

_POOL_SIZE = 192
_SYLLABLES = (
    "ba be bo da de di fa fe ga go ha he ka ke ki la le li lo ma me mi mo na ne no pa pe po ra re "
    "ri ro sa se si so ta te ti to va ve vi vo za zo ün é ß ö"
)


@lru_cache(maxsize=4)
def paragraphs(seed: int) -> tuple[str, ...]:
    """Paragraphs of 250 to 900 characters, all of which fit into Latin-1."""
    rng = random.Random(seed)
    syllables = _SYLLABLES.split()
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(900)]
    return tuple(
        f"<p>{_sentences(rng, words, rng.randint(250, 900))}</p>\n" for _ in range(_POOL_SIZE)
    )


def _sentences(rng: random.Random, words: list[str], length: int) -> str:
    said = ""
    while len(said) < length:
        said += " ".join(rng.choices(words, k=rng.randint(6, 16))).capitalize() + ". "
    return said.rstrip()
