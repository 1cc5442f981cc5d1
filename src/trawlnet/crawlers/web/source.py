"""The source of a web crawl: seeds and sitemaps from the command line, the config and seeds.txt."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.web.visiting.linking import Linker, LinkRefusal
from trawlnet.crawlers.web.work import PageVisit, SitemapVisit
from trawlnet.engine.durable import make_directory
from trawlnet.engine.ports import Page
from trawlnet.engine.task import Task
from trawlnet.malformed import Malformed
from trawlnet.net.lane import lane_of
from trawlnet.storage.files import replace_file
from trawlnet.webpage.url import request_url

SEEDS = "seeds.txt"
_GIVEN = Path("state", "web", SEEDS)  # Seeds of the command line, for runs that do not repeat them.
_AT_ONCE = 1000  # Seeds in one page.


def read_seeds(workspace: Path, seeds: Iterable[str]) -> list[str]:
    """Request URLs of all seeds, each once. Raises NotReady for what is not a URL."""
    written = [(one, "seeds") for one in seeds]
    for name in (Path(SEEDS), _GIVEN):
        if (workspace / name).exists():
            lines = (workspace / name).read_text("utf-8-sig", "replace").splitlines()
            written += [(line, f"{name}, line {number}") for number, line in enumerate(lines, 1)]
    found: dict[str, None] = {}
    for text, where in written:
        text = text.strip()
        if text and not text.startswith("#"):
            found[_url(text, where)] = None
    return list(found)


def remember_seeds(workspace: Path, seeds: Iterable[str]) -> None:
    """Save the seeds, so that a crawl that is continued without them stays on their hosts."""
    file = workspace / _GIVEN
    known = file.read_text("utf-8").splitlines() if file.exists() else []
    fresh = [one for one in dict.fromkeys(seeds) if one not in known]
    if fresh:
        make_directory(file.parent)
        replace_file(file, "".join(f"{one}\n" for one in (*known, *fresh)).encode())


def _url(text: str, where: str) -> str:
    try:
        return request_url(text if "://" in text else f"https://{text}")
    except Malformed as error:
        raise NotReady(
            f"{where}: {text[:200]!r} is not a URL to start from: {error}",
            "write it like https://example.org/",
        ) from None


class SeedSource:
    """Lists all seeds at each start, because the store ignores known keys, unless they are the same
    as last time: the cursor has their digest and the number of seeds that were listed."""

    def __init__(self, seeds: Sequence[str], sitemaps: Sequence[str], linker: Linker) -> None:
        self._seeds = seeds
        self._sitemaps = sitemaps
        self._linker = linker

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        mark = hashlib.sha256("\n".join((*self._seeds, "", *self._sitemaps)).encode()).hexdigest()
        known, _, listed = (after or "").partition(":")
        begun = int(listed) if known == mark[:16] else 0
        for start in range(begun, len(self._seeds), _AT_ONCE):
            urls = self._seeds[start : start + _AT_ONCE]
            tasks = [self._task(url) for url in urls]
            if start == 0:
                tasks += [SitemapVisit(url, is_source=True).task() for url in self._sitemaps]
            yield Page(tasks, f"{mark[:16]}:{start + len(urls)}")
        if not self._seeds and self._sitemaps and begun == 0:
            yield Page(
                [SitemapVisit(url, is_source=True).task() for url in self._sitemaps],
                f"{mark[:16]}:0",
            )

    def _task(self, url: str) -> Task:
        """A seed that the policy forbids becomes a task, too, so that its refusal is recorded."""
        task = self._linker.task(PageVisit(url))
        if isinstance(task, LinkRefusal):
            return PageVisit(url).task(self._linker.key(url), 0.0, lane_of(url))
        return task
