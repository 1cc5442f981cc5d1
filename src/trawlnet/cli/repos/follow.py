"""`trawlnet repos follow`: the archive stays what the network is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trawlnet.cli.common.flags import Board, Folder, Json
from trawlnet.cli.common.verb import CRAWLS, Verb
from trawlnet.cli.crawl.crawler import CrawlPlan, RunnableCrawler
from trawlnet.cli.crawl.verb import start
from trawlnet.cli.repos.crawler import REPOS
from trawlnet.crawlers.repos.build import open_follow
from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.crawlers.repos.settings import check_follow


def _plan(config: ReposConfig) -> CrawlPlan:
    return REPOS.plan(config.model_copy(update={"follow": True}))


_FOLLOW = RunnableCrawler(
    replace(REPOS, plan=_plan, ready=check_follow, verb="follow", fleet=""), open_follow
)
# What only a crawl does, which names accounts by itself.
_OF_A_CRAWL = {"follow", "source", "page_size", "update", "resume", "rca_version", "keep_cids"}


def follow(
    *, workspace: Folder, dashboard: Board = "", json: Json = False, flags: Mapping[str, Any]
) -> int:
    """Follow firehoses: every change is verified, archived and published as an event.

    Runs until it is stopped; started again, it continues where it stopped. An account that the
    archive does not have is fetched when a firehose names it.
    """
    return start(_FOLLOW, workspace, json, flags, dashboard)


FOLLOW = Verb(
    follow,
    "repos follow -w ./net --relay https://relay.example --contact you@example.org",
    CRAWLS,
    REPOS.name,
    ReposConfig,
    [key for key in ReposConfig.model_fields if key not in _OF_A_CRAWL],
    REPOS.spellings,
)
