"""The location of an archive on the command line: a folder, a file, or s3://BUCKET/FOLDER."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trawlnet.archive.reader import ArchiveChanged, NoArchive, Place, find_segments, size_of
from trawlnet.archive.remote import remote
from trawlnet.cli.common.errors import CliError
from trawlnet.cli.common.workspace import shown
from trawlnet.storage.s3 import SCHEME, s3_options


def parse_place(text: str) -> Place:
    return remote(text, s3_options(os.environ)) if text.startswith(SCHEME) else Path(text)


def place_shown(place: Place) -> str:
    return shown(place) if isinstance(place, Path) else str(place)


def total_size(place: Place) -> int:
    """Bytes of all its segments."""
    return sum(map(size_of, find_segments(place)))


@contextmanager
def reading(place: Place, hint: str = "name the folder of segment_0001.rca") -> Iterator[None]:
    """Turn errors of an archive into errors with a hint."""
    try:
        yield
    except NoArchive as error:
        inner = place / "archive" if isinstance(place, Path) else None
        here = inner is not None and inner.is_dir()
        raise CliError(str(error), f"try {shown(inner)}" if inner and here else hint) from None
    except IsADirectoryError:
        raise CliError(f"{place_shown(place)} is a folder", hint) from None
    except ArchiveChanged as error:
        raise CliError(str(error), "run the same command again") from None
