"""Files with one DID per line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trawlnet.atproto.syntax import is_did
from trawlnet.crawlers.errors import NotReady


def check_dids(path: Path) -> None:
    """Raises NotReady: a mistake in the last line is told before the first request."""
    for _ in dids_in(path):
        pass


def dids_in(path: Path) -> Iterator[str]:
    """One per line; empty lines and those that begin with # are comments."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                word = line.strip().decode("utf-8", "replace")
                if not word or word.startswith("#"):
                    continue
                if not is_did(word):
                    what = f"{path}, line {number}: {word[:80]!r} is not a DID"
                    raise NotReady(what, "write one DID per line, such as did:plc:...")
                yield word
    except OSError as error:
        hint = "give a file with one DID per line: --dids FILE"
        raise NotReady(f"{path}: {error.strerror}", hint) from None
