"""The entry of one URL in the page index, and how a capture changes it."""

from __future__ import annotations

import hashlib

import msgspec

from trawlnet.captures.line import CaptureLine


class KnownPage(msgspec.Struct, array_like=True, frozen=True):
    url: str
    http_status: int  # Of the last answer.
    content: bytes  # The sha256 of the last content; empty if there was none.
    path: str  # The parts of its stored path that are not the sha256: "folder/|.suffix".
    etag: str
    last_modified: str
    timestamp: float  # Of the last answer, in Unix seconds.
    changed_at: float  # Of the answer that first brought this content.
    revisit_in: float | None
    page_type: str
    depth: int

    @property
    def fetched(self) -> bool:
        """Whether the last answer was a page; a redirect is none."""
        return 200 <= self.http_status < 300 or self.http_status == 304

    @property
    def sha256(self) -> str:
        return self.content.hex()

    @property
    def stored_path(self) -> str:
        """Relative to the workspace; empty if the content is not stored."""
        if not self.path:
            return ""
        folder, _, suffix = self.path.partition("|")
        name = self.sha256
        return f"{folder}{name[:2]}/{name[2:4]}/{name}{suffix}"

    @property
    def validators(self) -> dict[str, str]:
        """Headers that make a request conditional; none if no content is stored."""
        if not self.content:
            return {}
        found = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in found.items() if value}


def digest_of(url: str) -> bytes:
    """The key of a URL: a digest, because URLs can be longer than LMDB keys."""
    return hashlib.blake2b(url.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def page_after(before: KnownPage | None, line: CaptureLine) -> KnownPage:
    content = bytes.fromhex(line.content_sha256)
    same = before is not None and before.content == content
    return KnownPage(
        url=line.url,
        http_status=line.http_status,
        content=content,
        path=_short(line),
        etag=line.etag,
        last_modified=line.last_modified,
        timestamp=line.timestamp,
        changed_at=before.changed_at if before is not None and same else line.timestamp,
        revisit_in=line.revisit_in,
        page_type=line.page_type,
        depth=line.depth,
    )


def _short(line: CaptureLine) -> str:
    name = line.content_sha256
    folder, found, suffix = line.stored_path.partition(f"{name[:2]}/{name[2:4]}/{name}")
    return f"{folder}|{suffix}" if found and name else ""
