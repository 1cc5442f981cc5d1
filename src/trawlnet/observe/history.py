"""The history of a crawl's figures, in bounded space: dense for the last hour, sparser before.

Three files of JSON lines, each with its own step; a line is a sample. A file that has grown to
twice its length is cut to the newer half, so that disk is bounded and a sample costs one append.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from trawlnet.engine.durable import make_directory


class Sample(NamedTuple):
    at: float
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Tier:
    name: str
    step: float  # Seconds between two samples, at least.
    length: int  # The least number of stored samples.

    def wants(self, at: float, last: float) -> bool:
        """Whether a sample is due; also after a clock was set back."""
        return not 0.0 <= at - last < self.step * _NEARLY


_NEARLY = 0.9  # Share of a step: a timer of ten seconds sometimes fires a little early.


TIERS = (
    Tier("hour", 10.0, 360),
    Tier("day", 60.0, 1440),
    Tier("season", 900.0, 5760),
)


class History:
    """The only writer: the process with the lock of the workspace."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        make_directory(self._folder)
        self._last: dict[str, float] = {}
        self._lines: dict[str, int] = {}
        for tier in TIERS:
            _end_torn_line(self._file(tier))
            samples = list(_read(self._file(tier)))
            self._last[tier.name] = samples[-1].at if samples else 0.0
            self._lines[tier.name] = len(samples)

    def add(self, at: float, values: Mapping[str, float]) -> None:
        """Add a sample to each tier that is due. Raises OSError."""
        line = line_of(at, values) + b"\n"
        for tier in TIERS:
            if not tier.wants(at, self._last[tier.name]):
                continue
            self._last[tier.name] = at
            with self._file(tier).open("ab") as file:
                file.write(line)
            self._lines[tier.name] += 1
            if self._lines[tier.name] >= 2 * tier.length:
                self._cut(tier)

    def _cut(self, tier: Tier) -> None:
        path = self._file(tier)
        kept = path.read_bytes().splitlines(keepends=True)[-tier.length :]
        fresh = path.with_suffix(".tmp")
        fresh.write_bytes(b"".join(kept))
        fresh.replace(path)
        self._lines[tier.name] = len(kept)

    def _file(self, tier: Tier) -> Path:
        return self._folder / f"{tier.name}.jsonl"


def _end_torn_line(path: Path) -> None:
    """End an incomplete line, so that the next sample does not become part of it."""
    if path.exists() and not path.read_bytes().endswith(b"\n"):
        with path.open("ab") as file:
            file.write(b"\n")


def line_of(at: float, values: Mapping[str, float]) -> bytes:
    return json.dumps({"at": round(at, 3), **values}, separators=(",", ":")).encode()


def read_history(folder: Path, since: float, most: int = 720) -> list[Sample]:
    return picked((list(_read(folder / f"{tier.name}.jsonl")) for tier in TIERS), since, most)


def picked(tiers: Iterable[Sequence[Sample]], since: float, most: int) -> list[Sample]:
    """Samples from `since` on, from the densest tier that reaches back so far; at most `most`,
    evenly thinned out."""
    found: Sequence[Sample] = ()
    for samples in tiers:
        recent = [sample for sample in samples if sample.at >= since]
        if len(recent) > len(found) or not found:
            found = recent
        if samples and samples[0].at <= since:
            found = recent
            break
    every = -(-len(found) // most) or 1
    return list(found[::-1][::every][::-1])


def last_sample(folder: Path) -> Sample | None:
    """The newest sample, without reading the others."""
    try:
        with (folder / f"{TIERS[0].name}.jsonl").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LONGEST_LINES))
            lines = file.read().splitlines()
    except FileNotFoundError:
        return None
    # The first line may be cut off by our read, the last one by a crash.
    return next(samples_of(reversed(lines)), None)


_LONGEST_LINES = 16 << 10  # Bytes of two lines.


def _read(path: Path) -> Iterator[Sample]:
    try:
        yield from samples_of(path.read_bytes().splitlines())
    except FileNotFoundError:
        return


def samples_of(lines: Iterable[bytes]) -> Iterator[Sample]:
    """The samples; skips incomplete lines and anything that is no sample."""
    for line in lines:
        try:
            fields = json.loads(line)
            at = fields.pop("at")
        except (ValueError, AttributeError, KeyError, TypeError):
            continue
        if isinstance(at, int | float):
            values = {name: v for name, v in fields.items() if isinstance(v, int | float)}
            yield Sample(at, values)
