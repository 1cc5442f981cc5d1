"""Loads the lexicons that records are validated against: shipped ones, and the workspace's."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import orjson

from trawlnet.atproto.lexicon.schema import Lexicon, Lexicons, parse_lexicon
from trawlnet.crawlers.errors import NotReady
from trawlnet.malformed import Malformed


def load_lexicons(folder: Path | None = None) -> Lexicons:
    """A file in the folder, at any depth, overrides a shipped one of the same id."""
    lexicons = {lexicon.nsid: lexicon for lexicon in _shipped()}
    if folder is not None and folder.is_dir():
        for path in sorted(folder.rglob("*.json")):
            lexicon = _read(path.read_bytes(), str(path))
            lexicons[lexicon.nsid] = lexicon
    return lexicons


def _shipped() -> Iterator[Lexicon]:
    for file in files("trawlnet.crawlers.pds.records").joinpath("lexicons").iterdir():
        if file.name.endswith(".json"):
            yield _read(file.read_bytes(), file.name)


def _read(body: bytes, name: str) -> Lexicon:
    try:
        return parse_lexicon(orjson.loads(body))
    except (ValueError, Malformed) as error:
        raise NotReady(f"{name}: {error}", "correct the lexicon, or take it away") from error
