"""The command lines of the frozen crawls: the same for who froze them and for who carries on."""

from __future__ import annotations

from pathlib import Path

from tests.frozen.worlds import COLLECTIONS
from tests.support.pds.sim_world import PdsWorld
from trawlnet.sim.atproto.world import AtprotoWorld
from trawlnet.sim.ids import Traffic
from trawlnet.sim.ids.world import IdsWorld as IdsWorld
from trawlnet.sim.web import WebWorld as WebWorld
from trawlnet.sim.web.plan import TRAPS

Words = tuple[object, ...]


def repos_words(world: AtprotoWorld, folder: Path, rps: float, *more: object) -> Words:
    where = ("--relay", world.relay, "--plc-url", world.plc, "--allow-private-hosts")
    rates = ("--default-pds-rps", rps, "--small-pds-rps", rps, "--plc-rps", 500)
    return ("repos", "crawl", "-w", folder, *where, *rates, *more)


def follow_words(world: AtprotoWorld, folder: Path, rps: float) -> Words:
    """Backfill and live. What the relay leaves out is not made good before it is killed."""
    late = ("--follow", "--live-tables", "on", "--resync-pause", 60)
    return repos_words(world, folder, rps, *late)


def plc_words(url: str, folder: Path) -> Words:
    where = ("--plc-url", url, "--allow-private-hosts", "--plc-rps", 500)
    return ("repos", "plc", "-w", folder, *where)


def web_words(world: WebWorld, folder: Path, rps: float) -> Words:
    hosts = [word for host in world.site.hosts for word in ("--allowed-host", host)]
    quick = ("--req-per-sec", rps, "--concurrency", 16, "--allow-private-hosts")
    return ("web", "crawl", "-w", folder, *world.seeds, *hosts, *quick)


def scrape_words(folder: Path, rps: float) -> Words:
    return ("web", "scrape", "-w", folder, "--req-per-sec", rps, "--allow-private-hosts")


# In the frozen workspace, as its trawlnet.yaml.
WEB_CONFIG = {
    "caps": {"max_depth": None},
    "scope": {"deny_patterns": [f"^http://[^/]*{trap}" for trap in TRAPS]},
    "trajectory": {"enabled": False},
}


def ids_range(traffic: Traffic) -> tuple[int, int]:
    """Ids that are there whenever the world starts: it is five minutes old then."""
    first = traffic.head(170.0)
    return first, first + 300


def ids_words(world: IdsWorld, folder: Path) -> Words:
    first, until = ids_range(world.traffic)
    return (
        *("ids", "crawl", "-w", folder, "--base-url", world.base_url, "--preset", "pgcr"),
        *("--target", first + 50, "--buffer", 50, "--until", until, "--patience", 10),
        "--allow-private-hosts",
    )


def pds_words(world: PdsWorld, folder: Path) -> Words:
    wanted = [word for one in COLLECTIONS for word in ("--collections", one)]
    where = ("--plc-url", world.plc, "--plc-rps", 1000, "--allow-private-hosts")
    urls = [world.url(pds) for pds in world.pdses]
    return ("pds", "scan", "-w", folder, *urls, *where, *wanted, "--concurrency", 3)
