"""The verbs that apply the web crawler's rules to URLs without fetching anything."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from trawlnet.cli.common.errors import Exit, UsageTrouble
from trawlnet.cli.common.flags import Folder, Json, argument, default_workspace
from trawlnet.cli.common.output import emit, say
from trawlnet.cli.common.sections import load_section
from trawlnet.cli.common.verb import PLAIN, Verb
from trawlnet.cli.common.workspace import Workspace, find
from trawlnet.crawlers.web.admission.policy import Policy
from trawlnet.crawlers.web.config import WebConfig, keys_of
from trawlnet.crawlers.web.source import read_seeds
from trawlnet.malformed import Malformed
from trawlnet.webpage.robots import parse_robots, product_token
from trawlnet.webpage.url import request_url, split

RobotsFile = Annotated[Path, argument("FILE", "A robots.txt file.")]
Agent = Annotated[str, argument("AGENT", "Product token or user agent.")]
Urls = Annotated[list[str], argument("URL", "URLs to test.")]


def check(urls: Urls, workspace: Folder, json: Json = False) -> int:
    """Say whether the crawl would visit a URL and as which page type, or why not.

    Nothing is fetched, so robots.txt is not consulted.
    """
    place = find(workspace, "web")
    config = load_section(place, WebConfig).config
    policy = Policy(config, () if config.scope.allowed_hosts else _seed_hosts(config, place))
    for url in urls:
        verdict = policy.check(url)
        if json:
            emit({"url": url, **verdict._asdict()})
        elif verdict.ok:
            print(f"ok {verdict.page_type} {url}")
        else:
            detail = f" ({verdict.detail})" if verdict.detail else ""
            print(f"no {verdict.reason} {url}{detail}")
    return 0


def _seed_hosts(config: WebConfig, place: Workspace) -> set[str]:
    """A crawl that names no hosts stays on those of its seeds."""
    return {split(url).host for url in read_seeds(place.path, config.seeds)}


def robots(file: RobotsFile, agent: Agent, urls: Urls) -> int:
    """Print `allow URL` or `deny URL` for each URL (or path), by a robots.txt on disk."""
    if not product_token(agent):
        raise UsageTrouble(f"no product token in {agent!r}", "begin it with a name, such as MyBot")
    rules = parse_robots(file.read_bytes(), agent)
    for url in urls:
        try:
            base = "http://localhost/" if url[:1] == "/" else None
            target = split(request_url(url, base, sys.maxsize)).target
            verdict = "allow" if rules.allows(target) else "deny"
        except Malformed as error:
            say(f"{url}: {error}")
            verdict = "deny"
        print(f"{verdict} {url}")
    return 0


def canonical(workspace: Folder) -> int:
    """For each URL on stdin print `request URL<TAB>dedup key`, or `refused: why`."""
    if workspace.exists() or workspace != default_workspace():
        find(workspace, "web")
    config = load_section(Workspace(workspace, "web"), WebConfig).config
    keys = keys_of(config)
    for line in sys.stdin.buffer:
        text = line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")
        try:
            url = request_url(text, most=config.urls.max_length)
            print(f"{url}\t{keys.key(url)}", flush=True)
        except Malformed as error:
            print(f"refused: {error}", flush=True)
    return 0


_READS_WORKSPACE = (*PLAIN, Exit.NO_WORKSPACE)
CHECK = Verb(check, "web check https://example.org/ -w ./site", _READS_WORKSPACE, "web")
ROBOTS = Verb(robots, "web robots ./robots.txt trawlnet https://example.org/private", PLAIN, "web")
CANONICAL = Verb(canonical, "web canonical < urls.txt", _READS_WORKSPACE, "web")
