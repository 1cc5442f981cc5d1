"""Small files beside the ledger: the last decisions, the figures of now, and the missed log."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from trawlnet.crawlers.ids.model import Decision
from trawlnet.engine.durable import make_directory

DECISIONS = "decisions.jsonl"
NOW = "now.json"
MISSED_LOG = "missed.log"
HEAD = "head.json"
_DECISIONS_KEPT = 1000
_SEEN_KEPT = 400


class DecisionFile:
    """The last decisions, one JSON object a line, the newest last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = len(_lines(path))

    def keep(self, decision: Decision) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(decision)) + "\n")
        self._lines += 1
        if self._lines >= 2 * _DECISIONS_KEPT:
            newest = _lines(self._path)[-_DECISIONS_KEPT:]
            _replace(self._path, "".join(line + "\n" for line in newest))
            self._lines = len(newest)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []


NOW_NOTE = "now"  # The same figures, in a ledger that others can look at.


class MissedLog:
    """One missed id a line; ids that are no longer missed are removed. The file is a copy of the
    ledger, and is rebuilt when a crawl begins."""

    def __init__(self, path: Path, missed: Iterable[int]) -> None:
        self._path = path
        self._missed = dict.fromkeys(missed)
        make_directory(self._path.parent)
        self._rewrite()

    def changed(self, came: Iterable[int], went: Iterable[int]) -> None:
        fresh = [number for number in came if number not in self._missed]
        gone = [number for number in went if number in self._missed]
        for number in gone:
            del self._missed[number]
        self._missed |= dict.fromkeys(fresh)
        if gone:
            self._rewrite()
        elif fresh:
            with self._path.open("a", encoding="ascii") as file:
                file.write("".join(f"{number}\n" for number in fresh))

    def _rewrite(self) -> None:
        _replace(self._path, "".join(f"{number}\n" for number in self._missed))


class NewestIds:
    """The last seen ids, with their times, for the next start on any machine."""

    def __init__(self, saved: str | None, save: Callable[[str], None]) -> None:
        self._save = save
        self.before = _seen(saved or "[]")  # Of the previous crawl.
        self._seen: deque[tuple[int, float]] = deque(self.before, maxlen=_SEEN_KEPT)
        self._changed = False
        self._newest_at = max((at for _, at in self.before), default=None)

    def reached(self, happened_at: float) -> None:
        """An id with an event of this time was fetched, or is known to exist."""
        self._newest_at = max(happened_at, self._newest_at or happened_at)

    def age(self, now: float) -> float | None:
        """Of the newest id; None if none was ever seen."""
        return None if self._newest_at is None else max(0.0, now - self._newest_at)

    def saw(self, number: int, happened_at: float) -> None:
        self._seen.append((number, happened_at))
        self._changed = True

    def keep(self) -> None:
        if self._changed:
            self._changed = False
            self._save(json.dumps(list(self._seen)))


def head_file(path: Path) -> NewestIds:
    try:
        saved = path.read_text("utf-8")
    except (FileNotFoundError, ValueError):
        saved = None
    return NewestIds(saved, partial(_replace, path))


def _seen(saved: str) -> list[tuple[int, float]]:
    try:
        return [(int(number), float(at)) for number, at in json.loads(saved)]
    except (ValueError, TypeError):
        return []


def write_now(folder: Path, figures: Mapping[str, Any]) -> None:
    """Save the figures for other processes; without fsync, because old figures have no value."""
    _replace(folder / NOW, json.dumps(figures))


def read_now(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / NOW).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(path.name + ".tmp")
    fresh.write_text(text, "utf-8")
    fresh.replace(path)
