"""`trawlnet web`: sites, page by page, as politely as they ask for."""

from __future__ import annotations

import typer

from trawlnet.cli.report import add_web_report
from trawlnet.cli.web_configure import add_configure
from trawlnet.cli.web_crawl import add_crawl_verbs
from trawlnet.cli.web_replay import add_replay
from trawlnet.cli.web_rules import add_rule_verbs

app = typer.Typer(
    name="web",
    help="Crawl web sites.",
    rich_markup_mode=None,
    epilog="Example: trawlnet web check https://example.org/ -w ./site",
)
add_configure(app)
add_crawl_verbs(app)
add_replay(app)
add_rule_verbs(app)
add_web_report(app)
