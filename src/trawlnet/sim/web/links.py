"""The link graph of a simulated web: where each page leads, and how its hrefs are spelt."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from trawlnet.sim.habits import PRIVATE_TARGETS, Habit
from trawlnet.sim.web.plan import TRACKING, PageKind, SimPage, SimSite

FANOUT = 5  # Children of a page in the tree that makes every page a few clicks deep.
_NEAR = 12  # Further links to the same host.
_FAR = 5  # Links to other hosts.
_REPEATS = 4  # Links that a page has twice, spelt in another way.
LONG_CHAIN = 40  # Hops, more than any client should follow.


class SimLink(NamedTuple):
    target: SimPage
    nofollow: bool = False


@dataclass(frozen=True, slots=True)
class Redirect:
    status: int
    location: str
    target: SimPage | None  # None: it leads out of the world.


def links(site: SimSite, host: int, n: int) -> list[SimLink]:
    """The links of one HTML page, repeats included, in order."""
    rng = site.rng(host, n, salt=1)
    targets = list(_near(site, host, n, rng))
    # A sick host leads nowhere else, so what can be reached never hangs on its health.
    if site.habits[host] is Habit.GOOD:
        targets += _far(site, host, n, rng)
    found = [SimLink(node, kind is PageKind.PARTNER) for node, kind in _linkable(site, targets)]
    return found + [found[int(rng.random() * len(found))] for _ in range(_REPEATS)]


def _near(site: SimSite, host: int, n: int, rng: random.Random) -> Iterator[SimPage]:
    count = site.pages_on(host)
    yield SimPage(host, 0)
    for child in range(n * FANOUT + 1, min(n * FANOUT + FANOUT + 1, count)):
        yield SimPage(host, child)
    if n + 1 < count:
        yield SimPage(host, n + 1)
    for _ in range(_NEAR):
        yield SimPage(host, int(rng.random() * count))


def _far(site: SimSite, host: int, n: int, rng: random.Random) -> Iterator[SimPage]:
    good = site.good
    for _ in range(_FAR):
        yield SimPage(good[int(rng.random() * len(good))], int(rng.random() * site.pages))
    if n == 0:
        place = site.places[host]
        for child in good[place * FANOUT + 1 : place * FANOUT + FANOUT + 1]:
            yield SimPage(child, 0)
        if place == 0:
            for other, habit in enumerate(site.habits):
                if habit is not Habit.GOOD:
                    yield SimPage(other, 0)


def _linkable(site: SimSite, targets: list[SimPage]) -> Iterator[tuple[SimPage, PageKind]]:
    for node in targets:
        kind = site.kind(node.host, node.n)
        if kind is not PageKind.ARCHIVE:
            yield node, kind


def redirect(site: SimSite, node: SimPage) -> Redirect:
    """Where a redirecting page leads: near, far, along a chain, round in circles, or out."""
    host, n, hop = node.host, node.n, node.hop
    shape = site.lot(host, n, salt=2, sides=10)
    target = _landing(site, host, n)
    if shape < 4:
        return _to(site, target, (301, 302, 307, 308)[shape], relative=True)
    if shape == 4:
        return _to(site, target, 303, relative=False)
    if shape == 5 and hop < 2:
        return _to(site, SimPage(host, n, hop + 1), 302, relative=True)
    if shape == 6 and site.habits[host] is Habit.GOOD:
        other = site.good[(site.places[host] + 1) % len(site.good)]
        return _to(site, _landing(site, other, n), 301, relative=False)
    if shape == 7:
        return Redirect(302, PRIVATE_TARGETS[n % len(PRIVATE_TARGETS)], None)
    if shape == 8:
        return _to(site, SimPage(host, n, 1 - hop), 301, relative=True)
    if shape == 9 and hop < LONG_CHAIN:
        return _to(site, SimPage(host, n, hop + 1), 302, relative=False)
    return _to(site, SimPage(host, 0) if shape == 9 else target, 302, relative=False)


def hops(site: SimSite, host: int, n: int) -> int:
    """How many further hops a redirecting page has before it leaves its own path."""
    return {5: 2, 8: 1, 9: LONG_CHAIN}.get(site.lot(host, n, salt=2, sides=10), 0)


def _to(site: SimSite, target: SimPage, status: int, *, relative: bool) -> Redirect:
    url = site.url(target)
    location = url.removeprefix(site.base(target.host)) if relative else url
    return Redirect(status, location, target)


def _landing(site: SimSite, host: int, n: int) -> SimPage:
    count = site.pages_on(host)
    for step in range(count):
        at = (n * 7 + step) % count
        if site.kind(host, at) in (PageKind.HOME, PageKind.ARTICLE, PageKind.GUIDE, PageKind.LIST):
            return SimPage(host, at)
    return SimPage(host, 0)


def spell(site: SimSite, link: SimLink, directory: str, host: int, rng: random.Random) -> str:
    """One of the many ways to write the same URL on a page that resolves against `directory`."""
    target = link.target
    path = site.path(target.host, target.n)
    style = int(rng.random() * 12)
    if target.host != host:
        return _spell_far(f"{site.hosts[target.host]}:{site.port}{path}", style)
    match style:
        case 0:
            return f"{site.base(host)}{path}"
        case 1:
            return "../" * (directory.count("/") - 1) + path[1:] if path != "/" else "/"
        case 2:
            return f"{path}#part-{n_of(rng)}"
        case 3:
            return f" \n{path}\t"
        case 4:
            return path.replace("%C3%A9", "%c3%a9")
        case 5:
            return f"/x/..{path}"
        case 6 | 7 if site.kind(host, target.n) in (PageKind.ARTICLE, PageKind.GUIDE):
            # Only where no robots rule looks at the end of the path or at the query.
            return f"{path}?{_tracking(rng)}"
        case _:
            return path


def n_of(rng: random.Random) -> int:
    return 1 + int(rng.random() * 9)


def _spell_far(rest: str, style: int) -> str:
    if style == 0:
        return f"HTTP://{rest}"
    if style < 4:
        return f"//{rest}"
    if style < 6:
        return f"http://{rest}#top"
    return f"http://{rest}"


def _tracking(rng: random.Random) -> str:
    first = int(rng.random() * len(TRACKING))
    if first % 2 == 0:
        return f"{TRACKING[first]}=x{n_of(rng)}"
    return f"{TRACKING[first]}=x{n_of(rng)}&amp;{TRACKING[first - 1]}=y"
