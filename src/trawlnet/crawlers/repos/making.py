"""From the CAR that a server sent to the block that is archived, or why there is none.

Everything here is for the thread pool: it takes long, and the native part leaves the lock of the
interpreter to others meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from trawlnet.crawlers.repos.config import ReposConfig, Verify
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.formats.keys import parse_did_key
from trawlnet.formats.malformed import Malformed
from trawlnet.formats.repoblock import Buffer, encode_content, extract
from trawlnet.formats.repocontent import (
    ExtractOptions,
    RepoContent,
    RepoError,
    RepoErrorKind,
)
from trawlnet.net.trouble import clean

_ROOM = 2  # Times the CAR: more than JSON and an index of it take, unless made to take more.
_LEAST_ROOM = 1 << 20
_MOST_ROOM = 3  # Times the largest CAR; what takes more is refused,
_LEAST_MOST = 64 << 20  # but never what takes less than this.


@dataclass(frozen=True, slots=True)
class Recipe:
    """How blocks are made in this crawl."""

    options: ExtractOptions
    verify: Verify
    zstd_level: int
    small: ExtractOptions  # The same in the least room: made once for the many small ones.

    def within(self, room: int) -> ExtractOptions:
        return self.small if room == _LEAST_ROOM else replace(self.options, memory_limit=room)


@dataclass(frozen=True, slots=True)
class RepoBlock:
    """A finished block of the archive, and what is worth knowing about it."""

    did: str
    rev: str
    block: bytes
    records: int
    collections: int
    dropped: Mapping[str, int]  # Records left out, by why.


@dataclass(frozen=True, slots=True)
class Doubt:
    """A sound repository that the key we have did not sign: it may have a newer one."""

    content: RepoContent


@dataclass(frozen=True, slots=True)
class Refused:
    reason: Reason
    detail: str
    cramped: bool = False  # It may have taken no more memory than is allowed, had that been there.

    def outcome(self) -> Outcome:
        return Outcome(self.reason, detail=clean(self.detail))


def recipe(config: ReposConfig) -> Recipe:
    options = ExtractOptions(
        verify_hashes=config.verify is not Verify.OFF,
        keep_cids=config.keep_cids,
        collections=config.collections,
        memory_limit=max(_LEAST_MOST, _MOST_ROOM * config.max_repo_size),
    )
    small = replace(options, memory_limit=_LEAST_ROOM)
    return Recipe(options, config.verify, config.zstd_level, small)


@dataclass(frozen=True, slots=True)
class Whose:
    did: str
    pds: str
    key: str  # did:key, or empty.
    at_us: int  # When it was fetched.


def usual_room(car: Buffer, recipe: Recipe) -> int:
    """Bytes of memory with which all but odd repositories can be read."""
    return min(max(_LEAST_ROOM, _ROOM * len(car)), recipe.options.memory_limit)


def read_car(car: Buffer, whose: Whose, recipe: Recipe, room: int) -> RepoBlock | Doubt | Refused:
    """All checks, then the block; in no more than `room` bytes of memory on top of the CAR."""
    try:
        content = extract(car, recipe.within(room))
    except RepoError as error:
        reason = _REASONS.get(error.kind, Reason.PARSE_ERROR)
        more = reason is Reason.TOO_LARGE and room < recipe.options.memory_limit
        return Refused(reason, str(error), cramped=more)
    if content.did != whose.did:
        return Refused(Reason.PARSE_ERROR, f"a repository of {content.did}")
    if recipe.verify is Verify.FULL and not is_signed(content, whose.key):
        return Doubt(content)
    return make_block(content, whose, recipe)


_REASONS = {
    RepoErrorKind.TRUNCATED: Reason.TRUNCATED,
    # Cut between two blocks, or written to while it was read; a second look tells.
    RepoErrorKind.MISSING_BLOCK: Reason.TRUNCATED,
    RepoErrorKind.OVER_LIMIT: Reason.TOO_LARGE,
}


def is_signed(content: RepoContent, key: str) -> bool:
    try:
        return parse_did_key(key).verifies(content.signature, content.unsigned_commit)
    except Malformed:
        return False


def make_block(content: RepoContent, whose: Whose, recipe: Recipe) -> RepoBlock | Refused:
    try:
        block = encode_content(
            content, pds=whose.pds, crawled_at_us=whose.at_us, zstd_level=recipe.zstd_level
        )
    except ValueError as error:
        return Refused(Reason.TOO_LARGE, f"more than the archive format can hold: {error}")
    return RepoBlock(
        content.did,
        content.rev,
        block,
        content.records,
        len(content.collections),
        {str(reason): count for reason, count in content.dropped.items()},
    )
