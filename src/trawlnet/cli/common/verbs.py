"""The verbs on a crawl's state that every crawler has: status, failures, retry, reset."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from trawlnet.cli.common.errors import CliError, Exit
from trawlnet.cli.common.flags import Folder, Json, Most, Why, Yes, parse_reason
from trawlnet.cli.common.in_order import by_key
from trawlnet.cli.common.output import emit, iso, say, size
from trawlnet.cli.common.sections import load_section
from trawlnet.cli.common.verb import READS, WRITES, Verb
from trawlnet.cli.common.workspace import Workspace, find, located, locked, shown, size_of
from trawlnet.cli.crawl.crawler import C, Crawler, of_another
from trawlnet.cli.crawl.status import cursor_of, of_running, status_row, status_text
from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Failure, Ledger
from trawlnet.loading import load
from trawlnet.observe.lanes import shown as harmless

T = TypeVar("T")
Flags = Mapping[str, Any]  # The flags of the command line, by config key.

_WORD_MAX = 300  # Characters of one column of `failures` as text; --json has all of it.


def status(crawler: Crawler[C]) -> Verb:
    def run(*, workspace: Folder, json: Json = False, flags: Flags) -> int:
        """Show the state of the crawl. Works while a crawl is running."""
        return _status(_place(crawler, workspace, flags), json)

    return _verb(crawler, run, "status -w ./net --json", READS)


def failures(crawler: Crawler[C]) -> Verb:
    def run(
        *,
        workspace: Folder,
        reason: Why = None,
        limit: Most = None,
        json: Json = False,
        flags: Flags,
    ) -> int:
        """List keys whose last attempt failed, in order. Works while a crawl is running."""
        return _failures(_place(crawler, workspace, flags), parse_reason(reason), limit, json)

    return _verb(crawler, run, "failures -w ./net --reason timeout --limit 20", READS)


def retry(crawler: Crawler[C]) -> Verb:
    def run(*, workspace: Folder, reason: Why = None, json: Json = False, flags: Flags) -> int:
        """Reopen failed keys, so that the next crawl tries them again."""
        return _retry(_place(crawler, workspace, flags), parse_reason(reason), json)

    return _verb(crawler, run, "retry -w ./net --reason timeout", WRITES)


def reset(crawler: Crawler[C]) -> Verb:
    def run(*, workspace: Folder, yes: Yes = False, json: Json = False, flags: Flags) -> int:
        """Delete the crawl's state and output, after asking."""
        return _reset(_place(crawler, workspace, flags), yes, json)

    return _verb(crawler, run, "reset -w ./net", WRITES)


def _verb(
    crawler: Crawler[C], run: Callable[..., int], example: str, exits: tuple[Exit, ...]
) -> Verb:
    return Verb(
        run,
        f"{crawler.name} {example}",
        exits,
        crawler.name,
        crawler.config,
        crawler.located_by,
        crawler.spellings,
    )


@dataclass(frozen=True, slots=True)
class _Place(Generic[C]):
    """The place of the crawl that a verb works on."""

    crawler: Crawler[C]
    workspace: Workspace
    flags: Flags

    @property
    def config(self) -> C:
        return load_section(self.workspace, self.crawler.config, self.flags).config

    @property
    def name(self) -> str:
        return self.crawler.name

    @property
    def shown(self) -> str:
        return shown(self.workspace.path)


def _place(crawler: Crawler[C], path: Path, flags: Flags) -> _Place[C]:
    """State on a server can be read from any machine; other state needs its workspace."""
    here = Workspace(path, crawler.name, given=located(flags))
    if not crawler.remote(load_section(here, crawler.config, flags).config):
        here = find(path, crawler.name, flags)
    return _Place(crawler, here, flags)


def _status(place: _Place[C], as_json: bool) -> int:
    async def ask(ledger: Ledger) -> dict[str, Any]:
        row = status_row(place.name, await ledger.counts())
        return row | {"cursor": await cursor_of(ledger), "running": None, "rate": None}

    # A standby process holds the lock, and has no figures.
    is_remote = bool(place.crawler.remote(place.config))
    row = of_running(place.workspace, patiently=not is_remote) or _with_ledger(place, ask)
    row["workspace"] = str(place.workspace.path)
    # What runs here is of this workspace, and is shown also while the server is away.
    row["held_by"] = None if row["running"] else _held_by(place) or None
    facts = asyncio.run(place.crawler.facts(place.config, place.workspace.path))
    # The process at work knows better.
    facts = {name: row.get(name, value) for name, value in facts.items()}
    if as_json:
        emit({**row, **facts})
    else:
        print(status_text(row, facts, place.workspace))
    return 0


def _failures(place: _Place[C], reason: Reason | None, limit: int | None, as_json: bool) -> int:
    async def show(ledger: Ledger) -> None:
        printed = 0
        found = _public(place, ledger.failures(reason))
        async for failure in found if place.crawler.lists_by_key else by_key(found):
            if printed == limit:
                return
            printed += 1
            print(json.dumps(_row(failure)) if as_json else _line(failure))

    _with_ledger(place, show)
    return 0


async def _public(place: _Place[C], failures: AsyncIterator[Failure]) -> AsyncIterator[Failure]:
    async for failure in failures:
        yield replace(failure, key=place.crawler.public_key(failure.key))


def _row(failure: Failure) -> dict[str, Any]:
    return {
        "key": failure.key,
        "lane": failure.lane,
        "reason": failure.reason,
        "detail": failure.detail,
        "attempt": failure.attempt,
        "at": iso(failure.at),
    }


def _line(failure: Failure) -> str:
    """Key, lane and detail come from servers: control characters must not reach a terminal."""
    words = (iso(failure.at) or "-", failure.reason, failure.lane, failure.key, failure.detail)
    return "  ".join(harmless(word, _WORD_MAX) for word in words).rstrip()


@contextmanager
def _changed(place: _Place[C]) -> Iterator[_Place[C]]:
    """Hold the lock of the workspace while the state changes. A crawl on a server may have no
    workspace here; a temporary folder stands in for it."""
    if place.workspace.path.exists():
        with locked(place.workspace):
            yield place
        return
    with tempfile.TemporaryDirectory(prefix="trawlnet-") as folder:
        instead = replace(place, workspace=Workspace(Path(folder), place.name))
        with locked(instead.workspace):
            yield instead


def _retry(place: _Place[C], reason: Reason | None, as_json: bool) -> int:
    is_here = place.workspace.path.exists()
    if holder := _held_by(place):
        raise _of_another(place, "retry", holder)
    with _changed(place) as there:
        count = _with_ledger(there, lambda ledger: ledger.retry(reason))
    if as_json:
        emit({"put_back": count})
    elif count and not is_here:
        say(f"{_keys(count)} reopened; a running fleet or the next crawl attempts them again")
    elif count:
        again = f"trawlnet {place.name} crawl {place.workspace.place}"
        say(f"{_keys(count)} reopened; crawl again: {again}")
    else:
        say("no failed key to reopen")
    return 0


def _held_by(place: _Place[C]) -> str:
    return asyncio.run(place.crawler.held_by(place.config, place.workspace.path))


def _of_another(place: _Place[C], verb: str, holder: str) -> CliError:
    return CliError(
        of_another(holder),
        f"name that workspace, where it is: trawlnet {place.name} {verb} -w FOLDER"
        f"{place.workspace.given}",
    )


def _keys(count: int) -> str:
    return f"{count:,} key{'' if count == 1 else 's'}"


def _reset(place: _Place[C], yes: bool, as_json: bool) -> int:
    config, crawler = place.config, place.crawler
    holder = _held_by(place)
    # What a workspace that is gone has left can be deleted from any other.
    if holder and load("trawlnet.crawlers.binding:is_still_here")(holder):
        raise _of_another(place, "reset", holder)
    with _changed(place) as there:
        path = there.workspace.path
        # State first: after a kill, the remaining state must not list deleted output.
        found = [one for pattern in crawler.outputs for one in sorted(path.glob(pattern))]
        doomed = [one for one in (*_state_files(there.workspace), *found) if one.exists()]
        words = [f"{shown(one)} ({size(size_of(one))})" for one in doomed]
        whose = f", the crawl of {holder}" if holder else ""
        words += [f"{remote}{whose}"] if (remote := crawler.remote(config)) else []
        for word in words:
            say(f"deletes {word}")
        if words and not yes:
            _confirm(f"delete these, and start the {place.name} crawl in {place.shown} over?")
        asyncio.run(crawler.forget(config))
        for one in doomed:
            shutil.rmtree(one) if one.is_dir() else one.unlink()
    if as_json:
        emit({"deleted": words})
    else:
        say("deleted" if words else "there was nothing to delete")
    return 0


def _state_files(workspace: Workspace) -> list[Path]:
    """All state files but the locks: a process that waits for a lock holds the old file open, and
    would not notice a new one."""
    return sorted(one for one in workspace.state.iterdir() if one not in workspace.lock_files)


def _confirm(question: str) -> None:
    # A whole line: a program that reads stderr by lines then finds the error that may follow.
    say(f"{question} [y/N]")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CliError("nothing was deleted", "answer y, or add --yes")


def _with_ledger(place: _Place[C], use: Callable[[Ledger], Awaitable[T]]) -> T:
    config = place.config

    async def run() -> T:
        async with place.crawler.ledger(config, place.workspace.state) as ledger:
            return await use(ledger)

    return asyncio.run(run())
