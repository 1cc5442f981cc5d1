"""Pages whose transcripts are run from top to bottom: each line that one shows must be printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, Block, blocks, commands
from tests.docs.session import Session, agrees
from tests.docs.worlds import (
    a_crawled_site,
    a_directory,
    a_finished_crawl,
    a_followed_network,
    a_network,
    a_scanned_network,
    a_site,
    a_small_network,
    fetched_ids,
    growing_ids,
    logs_of_a_site,
    nothing,
    sizes_of_hosts,
)

# Pages by their world; and commands of theirs that are not run, with the reason.
SESSIONS = {
    "docs/howto/collect-a-collection.md": a_scanned_network,
    "docs/howto/crawl-a-site.md": a_site,
    "docs/howto/find-every-pds.md": a_network,
    "docs/howto/follow-the-network.md": a_followed_network,
    "docs/howto/keep-up-with-ids.md": growing_ids,
    "docs/howto/logs-and-traces.md": logs_of_a_site,
    "docs/howto/look-at-what-came-home.md": a_crawled_site,
    "docs/howto/mirror-plc.md": a_directory,
    "docs/howto/run-a-registry.md": a_small_network,
    "docs/howto/store-ids.md": fetched_ids,
    "docs/howto/tune-ids.md": nothing,
    "docs/howto/watch-a-crawl.md": a_finished_crawl,
    "docs/scale.md": sizes_of_hosts,
}
LEFT_OUT = {
    "python -m http.server": "the test serves the site",
    "trawlnet web crawl -w ./site https://": "a host on the internet",
    "pip install": "it is installed",
    "trawlnet ids simulate --pause": "minutes",
    "trawlnet sim ": "the test serves the network",
    "trawlnet pds ban": "a host that the simulated network does not have",
    "trawlnet web report -w ./site --json | jq": "statuses of another site",
    "trawlnet pds discover -w ./net --plc --relay wss://relay.example": "a relay on the internet",
    "trawlnet pds crawl -w ./net --collections": "PDSes on the internet",
    "trawlnet pds crawl -w ./net --follow": "a relay on the internet",
    "trawlnet repos follow": "a relay on the internet",
    "trawlnet repos crawl --follow": "a relay on the internet",
    "export BUNGIE_API_KEY": "only the next command needs it",
    "trawlnet ids crawl -w ./net --target": "an API on the internet",
    "trawlnet ids store -w ./net  ": "docs/howto/store-ids.md runs it",
    "trawlnet ids crawl -w ./hn": "an API on the internet",
    "export OTEL_": "only the next command needs it",
    "export CLICKHOUSE_": "only the next command needs it",
    "trawlnet repos plc -w ./net --clickhouse": "a server",
    "trawlnet pds serve -w ./net --port 8080 --contact": "a name on the internet",
    "trawlnet ids store -w ./net --queue": "servers",
    "trawlnet repos crawl -w ./net --contact": "servers on the internet",
    "trawlnet dashboard --store redis": "a Redis that stays",
    "export TRAWLNET_DASHBOARD_TOKEN": "only the next command needs it",
    "trawlnet dashboard -w ./net --host": "every address of the machine",
    "tail -1": "no message was put aside",
    "python bench/": "minutes of every core",
}


def runs(block: Block) -> bool:
    return block.page in SESSIONS and block.is_shell


@pytest.mark.parametrize("page", SESSIONS)
def test_a_page_shows_what_is_printed(page: str, tmp_path: Path) -> None:
    session = Session(tmp_path)
    ran = 0
    with SESSIONS[page](session):
        try:
            for command in (
                one for b in blocks() if b.page == page and runs(b) for one in commands(b)
            ):
                if not command.line.startswith(tuple(LEFT_OUT)):
                    session.run(command.line, command.shown)
                    ran += 1
        finally:
            session.close()
    assert ran > 0


def test_pages_of_sessions_are_there_and_no_reason_is_left_over() -> None:
    assert all((ROOT / page).exists() for page in SESSIONS)
    lines = [one.line for block in blocks() if runs(block) for one in commands(block)]
    assert [what for what in LEFT_OUT if not any(line.startswith(what) for line in lines)] == []


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("done after 17s: ok 162, deactivated 1", "done after 3s: ok 1,162, takendown 9", True),
        ("done after 17s: ok 162", "ended after 17s: ok 162", False),
        ("up to date: 4 operations; …", "up to date: 5 operations; none of them new", True),
        ('{…, "live": {"lag": 0.5}}', '{"a": 1, "live": {"lag": 0.25, "gaps": 0}}', True),
        ('{…, "live": {"lag": 0.5}}', '{"a": 1, "live": {"delay": 0.25}}', False),
        ('{"stored": 290}', '{"stored": "many"}', False),
    ],
)
def test_only_what_may_differ_may_differ(shown: str, printed: str, same: bool) -> None:
    assert agrees(shown, printed) is same
