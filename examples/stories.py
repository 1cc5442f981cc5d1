"""A crawler of one's own: every story of an API and every comment below it, each once.

    python examples/story_api.py 8008 &
    python examples/stories.py crawl http://127.0.0.1:8008 ./stories
    python examples/stories.py load ./stories

Kill `crawl` with `kill -9` as often as you like: the same command goes on.
"""

import asyncio
import json
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from trawlnet import (
    Control,
    Counts,
    Feed,
    Gate,
    Guard,
    Http,
    Limits,
    Manners,
    Outcome,
    Page,
    Parts,
    QueueSink,
    Reason,
    RetryPolicy,
    SystemClock,
    Task,
    Trouble,
    crawl,
    lane_of,
    open_queue,
    open_store,
    outcome_of,
    user_agent,
)


class TopStories:
    """The source: all that is known before the crawl begins."""

    def __init__(self, lane: str) -> None:
        self.lane = lane

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        if after is None:
            yield Page([Task(key="topstories", lane=self.lane, payload="topstories")], cursor="1")


class FetchItem:
    """The handler: one task in, one outcome out."""

    def __init__(self, http: Http, base: str) -> None:
        self.http, self.base = http, base

    async def __call__(self, task: Task) -> Outcome:
        answer = await self.http.get(f"{self.base}/v0/{task.payload}.json", lane=task.lane)
        if isinstance(answer, Trouble) or answer.status != 200:
            return outcome_of(answer)
        try:
            value = json.loads(answer.body)
        except ValueError:
            return Outcome(Reason.PARSE_ERROR)
        if value is None:
            return Outcome(Reason.NOT_FOUND)
        if isinstance(value, list):
            return Outcome(Reason.OK, found=item_tasks(value, task.lane))
        return Outcome(Reason.OK, items=[value], found=item_tasks(value.get("kids", ()), task.lane))


def item_tasks(numbers: Iterable[int], lane: str) -> list[Task]:
    return [Task(key=f"item/{n}", lane=lane, payload=f"item/{n}") for n in numbers]


async def crawl_stories(base: str, folder: Path) -> Counts:
    clock, control = SystemClock(), Control(workers=8)
    gate = Gate(clock, Manners(rate=100.0, concurrency=8))
    for word in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(word, control.drain)
    store = await open_store(folder / "state")
    queue = await open_queue(folder / "spool", "items")
    # Private addresses are for this example's own server: leave the guard out for real ones.
    guard = Guard(allow_private=True)
    try:
        async with Http(gate, clock, user_agent("you@example.org"), guard=guard) as http:
            source, handler = TopStories(lane_of(base)), FetchItem(http, base)
            sink = QueueSink(queue, lambda task, item: item)
            parts = Parts(Feed(source, store), store, handler, sink, gate, clock)
            await crawl(parts, Limits(retry=RetryPolicy(base=0.2)), control)
        return await store.counts()
    finally:
        await queue.close()
        await store.close()


async def load_stories(folder: Path) -> int:
    """From the spool into a table. An item that a kill made us publish twice is one row."""
    database = sqlite3.connect(folder / "items.db")
    database.execute("CREATE TABLE IF NOT EXISTS items (id INTEGER PRIMARY KEY, json TEXT)")
    queue = await open_queue(folder / "spool", "items")
    try:
        async with aclosing(queue.consume(drain=True)) as deliveries:
            async for delivery in deliveries:
                item: dict[str, Any] = delivery.body
                with database:
                    row = (item["id"], json.dumps(item))
                    database.execute("INSERT OR REPLACE INTO items VALUES (?, ?)", row)
                await delivery.ack()
        (rows,) = database.execute("SELECT count(*) FROM items").fetchone()
        return int(rows)
    finally:
        await queue.close()
        database.close()


def main(arguments: list[str]) -> None:
    match arguments:
        case ["crawl", base, folder]:
            counts = asyncio.run(crawl_stories(base, Path(folder)))
            settled = ", ".join(f"{reason} {n}" for reason, n in sorted(counts.settled.items()))
            print(f"{counts.open} open; settled: {settled}")
        case ["load", folder]:
            print(f"{asyncio.run(load_stories(Path(folder)))} items in {folder}/items.db")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
