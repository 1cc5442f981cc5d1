"""Pages that are put back into the discovery spool: at once, and with nobody beside."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.web.site import QUICK
from trawlnet.captures.line import CaptureLine
from trawlnet.captures.replay import CaptureReplay
from trawlnet.cli.common.errors import CliError
from trawlnet.cli.common.workspace import create, holder
from trawlnet.cli.web import replay as verb
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.crawlers.web.discoveries import ask_again
from trawlnet.crawlers.web.ledger import open_ledger
from trawlnet.crawlers.web.unscraped import FILE, Unscraped, write_unscraped
from trawlnet.engine.outcome import Reason

FULL = {"spool": {"max_backlog_gb": 1e-7}}  # A hundred bytes.
LINE = CaptureLine(
    batch=1,
    visit="v",
    run="r",
    timestamp=1.0,
    url="https://a.example/" + "x" * 200,
    http_status=200,
    page_type="page",
    depth=1,
    referrer="",
)


def test_what_is_put_back_does_not_wait_for_room_that_only_a_scrape_can_make(
    tmp_path: Path,
) -> None:
    config = WebConfig.model_validate(QUICK | FULL)
    state = tmp_path / "state" / "web"

    async def tell() -> int:
        async with asyncio.timeout(120):
            for _ in range(2):
                await ask_again(config, tmp_path, [LINE])
            row = Unscraped(LINE.url, "a.example", Reason.TIMEOUT, "", 1, 2.0)
            write_unscraped(state / FILE, [row])
            async with open_ledger(config, state) as ledger:
                return await ledger.retry()

    assert asyncio.run(tell()) == 1
    files = (tmp_path / "spool" / "discoveries").glob("*.jsonl")
    assert sum(len(file.read_bytes().splitlines()) for file in files) == 3


def test_replay_holds_the_workspace_until_lost_pages_are_in_the_spool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = create(tmp_path, "web")
    told = CaptureReplay(captures=1, pages=1, damaged=1, lost=[LINE, LINE])
    asked: list[str] = []

    async def ask(config: WebConfig, workspace: Path, lines: list[CaptureLine]) -> None:
        # A crawl that began now would write to the spool, too: only one of them can.
        assert all(holder(role) for role in place.by_role)
        asked.extend(line.url for line in lines)

    monkeypatch.setattr(verb, "replay_captures", lambda *_, **__: told)
    monkeypatch.setattr(verb, "ask_again", ask)
    with pytest.raises(CliError, match="1 stored bodies") as damaged:
        verb.replay(tmp_path)
    assert damaged.value.hint.startswith("1 pages are in the discovery spool")
    assert asked == [LINE.url]
    assert not any(holder(role) for role in place.by_role)
