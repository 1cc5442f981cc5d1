"""The verbs that mean the same for every crawler: crawl, status, failures, retry, reset."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import typer

from trawlnet.cli.crawler import C, Crawler
from trawlnet.cli.errors import CliError
from trawlnet.cli.flags import Folder, Json, Most, Why, Yes, parse_reason, variables, with_flags
from trawlnet.cli.sections import load_section
from trawlnet.cli.settings import Settings
from trawlnet.cli.status import of_running, status_row, status_text
from trawlnet.cli.talk import emit, iso, say, size
from trawlnet.cli.workspace import Workspace, create, find, locked, shown, size_of
from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Failure, Ledger
from trawlnet.observe.lanes import shown as harmless

T = TypeVar("T")

_WORD_MAX = 300  # Characters of one column of `failures` as text; --json has all of it.


def add_shared_verbs(app: typer.Typer, crawler: Crawler[C]) -> None:
    """Give a crawler's group its verbs."""
    name = crawler.name

    def crawl(*, workspace: Folder, json: Json = False, flags: Mapping[str, Any]) -> int:
        """Start the crawl, or continue it: there is no difference.

        A flag can also be a key of trawlnet.yaml (workers: 50 in the crawler's section) or a
        variable (TRAWLNET_<CRAWLER>_WORKERS=50).
        """
        return _crawl(crawler, workspace, json, flags)

    def status(*, workspace: Folder, json: Json = False) -> int:
        """Show how the crawl stands, also while it runs."""
        return _status(crawler, workspace, json)

    def failures(
        *, workspace: Folder, reason: Why = None, limit: Most = None, json: Json = False
    ) -> int:
        """List keys whose last word was no success, also while a crawl runs."""
        return _failures(crawler, workspace, parse_reason(reason), limit, json)

    def retry(*, workspace: Folder, reason: Why = None, json: Json = False) -> int:
        """Put failures back, for the next crawl to try again."""
        return _retry(crawler, workspace, parse_reason(reason), json)

    def reset(*, workspace: Folder, yes: Yes = False, json: Json = False) -> int:
        """Delete the state and the output of the crawl, after asking."""
        return _reset(crawler, workspace, yes, json)

    settings = variables(name)
    for verb, example in (
        (with_flags(crawler.config, crawl), f"crawl -w ./net {crawler.example}"),
        (status, "status -w ./net --json"),
        (failures, "failures -w ./net --reason timeout --limit 20"),
        (retry, "retry -w ./net --reason timeout"),
        (reset, "reset -w ./net"),
    ):
        epilog = f"Example: trawlnet {name} {example}"
        app.command(verb.__name__, epilog=epilog, context_settings=settings)(verb)


def _crawl(crawler: Crawler[C], path: Path, as_json: bool, flags: Mapping[str, Any]) -> int:
    from trawlnet.cli.run import Job, run_crawl  # Heavy: only a crawl pays for it.

    def reload() -> Settings[C]:
        return load_section(Workspace(path, crawler.name), crawler.config, flags)

    # The config is read first: a mistake in it creates no workspace.
    settings = reload()
    return run_crawl(Job(crawler, create(path, crawler.name), settings, reload, as_json))


def _status(crawler: Crawler[C], path: Path, as_json: bool) -> int:
    workspace = find(path, crawler.name)

    async def ask(ledger: Ledger) -> dict[str, Any]:
        row = status_row(crawler.name, await ledger.counts())
        return row | {"cursor": await ledger.cursor(), "running": None, "rate": None}

    row = of_running(workspace) or _with_ledger(crawler, workspace, ask)
    row["workspace"] = str(path)
    if as_json:
        emit(row)
    else:
        print(status_text(row, workspace))
    return 0


def _failures(
    crawler: Crawler[C], path: Path, reason: Reason | None, limit: int | None, as_json: bool
) -> int:
    workspace = find(path, crawler.name)

    async def show(ledger: Ledger) -> None:
        shown_rows = 0
        async for failure in ledger.failures(reason):
            if shown_rows == limit:
                return
            shown_rows += 1
            failure = replace(failure, key=crawler.public_key(failure.key))
            print(json.dumps(_row(failure)) if as_json else _line(failure))

    _with_ledger(crawler, workspace, show)
    return 0


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
    """Key, lane and detail come from strangers: they reach a terminal only when harmless."""
    words = (iso(failure.at) or "never", failure.reason, failure.lane, failure.key, failure.detail)
    return "  ".join(harmless(word, _WORD_MAX) for word in words).rstrip()


def _retry(crawler: Crawler[C], path: Path, reason: Reason | None, as_json: bool) -> int:
    workspace = find(path, crawler.name)
    with locked(workspace):
        count = _with_ledger(crawler, workspace, lambda ledger: ledger.retry(reason))
    if as_json:
        emit({"put_back": count})
    elif count:
        say(f"{count:,} put back; try them: trawlnet {crawler.name} crawl -w {shown(path)}")
    else:
        say("there was nothing to put back")
    return 0


def _reset(crawler: Crawler[C], path: Path, yes: bool, as_json: bool) -> int:
    workspace = find(path, crawler.name)
    with locked(workspace):
        # State first: if this is cut short, what is left must not claim that output is there.
        doomed = _state_files(workspace) + [path / name for name in crawler.outputs]
        doomed = [one for one in doomed if one.exists()]
        for one in doomed:
            say(f"deletes {shown(one)} ({size(size_of(one))})")
        if not yes:
            _confirm(f"start the {crawler.name} crawl in {shown(path)} over?")
        config = load_section(workspace, crawler.config).config
        asyncio.run(crawler.forget(config))
        for one in doomed:
            shutil.rmtree(one) if one.is_dir() else one.unlink()
    if as_json:
        emit({"deleted": [str(one) for one in doomed]})
    else:
        say("deleted" if doomed else "there was nothing to delete")
    return 0


def _state_files(workspace: Workspace) -> list[Path]:
    """All but the lock: whoever waits for it must wait for this file, not for a new one."""
    return sorted(one for one in workspace.state.iterdir() if one != workspace.lock_file)


def _confirm(question: str) -> None:
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        agreed = False  # Nobody there to answer.
    if not agreed:
        raise CliError("nothing was deleted", "answer y, or add --yes")


def _with_ledger(
    crawler: Crawler[C], workspace: Workspace, use: Callable[[Ledger], Awaitable[T]]
) -> T:
    config = load_section(workspace, crawler.config).config

    async def run() -> T:
        async with crawler.ledger(config, workspace.state) as ledger:
            return await use(ledger)

    return asyncio.run(run())
