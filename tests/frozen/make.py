"""Freeze what the present code writes: `python -m tests.frozen.make VERSION [NAME …]`, with the
number of a version that was published, or else the first eight digits of the commit.

Only to freeze what a new version writes, beside what is here: a copy that is replaced proves
nothing any more about the code that wrote the old one.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.frozen import ice, worlds
from tests.frozen.commands import (
    WEB_CONFIG,
    follow_words,
    ids_range,
    ids_words,
    pds_words,
    plc_words,
    repos_words,
    scrape_words,
    web_words,
)
from tests.support.atproto.odd_directory import serving
from tests.support.fleet import run as fleets
from tests.support.fleet import web as web_fleet
from tests.support.pds.followed import follow_command, position, rows_of, until_true
from tests.support.program import environment, started, trawlnet
from tests.support.repos.followed import folded_events
from tests.support.repos.run import blocks_written
from tests.support.servers import postgres_server, rabbitmq_server, redis_server
from tests.support.web.captures import read_captures
from tests.support.world_thread import in_thread
from trawlnet.archive.format.rca import RcaError
from trawlnet.archive.reader import NoArchive
from trawlnet.captures.role import CRAWL, SCRAPE, Role
from trawlnet.crawlers.repos.following.live_store import look_at_due
from trawlnet.fleet.supervise import begin, supervise


def told(*words: object) -> list[dict[str, Any]]:
    ran = trawlnet(*words, "--json")
    assert ran.code == 0, ran.err
    return [{key: row[key] for key in row if key != "workspace"} for row in ran.rows]


def note(folder: Path, **rows: Any) -> None:
    (folder / "notes.json").write_text(json.dumps(rows, indent=1, sort_keys=True))


def killed(words: tuple[object, ...], enough: Callable[[], bool], what: str, out: Path) -> None:
    with started(*words, folder=out) as crawl:
        crawl.until(enough, what)
        crawl.process.kill()
        crawl.process.wait()


def archived(folder: Path) -> list[str]:
    try:
        return sorted(blocks_written(folder).elements())
    except (NoArchive, RcaError):
        return []  # Its first bytes are still to be written.


def captured(folder: Path, role: Role = CRAWL) -> list[str]:
    log = folder / role.log
    return sorted(line.url for line in read_captures(log)) if log.exists() else []


def repos_killed(folder: Path, scratch: Path, *more: object) -> None:
    with in_thread(worlds.repos_world(scratch / "log", latency=0.01)) as world:
        words = repos_words(world, folder, 4, *more)
        killed(words, lambda: len(archived(folder)) >= 10, "archived repos", scratch)
        status = told("repos", "status", "-w", folder, *more)
        failures = told("repos", "failures", "-w", folder, *more)
        note(folder, status=status, failures=failures, archived=archived(folder))


def repos_done(folder: Path, scratch: Path) -> None:
    with in_thread(worlds.repos_world(scratch / "log")) as world:
        where = ("-w", folder, "--plc-url", world.plc, "--allow-private-hosts")
        told("repos", "plc", *where, "--plc-rps", 500)
        done = trawlnet(*repos_words(world, folder, 200))
        assert done.code == 0, done.err
    told("repos", "replay", "-w", folder)
    note(
        folder,
        status=told("repos", "status", "-w", folder),
        failures=told("repos", "failures", "-w", folder),
        archived=archived(folder),
        tally=told("repos", "tally", folder / "archive"),
    )


def repos_follow(folder: Path, scratch: Path) -> None:
    """Killed with repositories still to be fetched, and others out of step with the stream."""
    acts = 0
    with worlds.followed_world(scratch) as world:
        words = follow_words(world.living.world, folder, 1)
        with started(*words, folder=scratch) as crawl:
            crawl.until(lambda: len(archived(folder)) >= 3, "archived repos")
            while folded_events(folder).lines < 90:
                world.happen(acts, acts + 1)
                acts += 1
                crawl.until(lambda: True, "the next act")
                time.sleep(0.05)
            crawl.process.kill()
            crawl.process.wait()
    state = folder / "state" / "repos"
    waiting = [visit.did for visit in look_at_due(state, 100)]
    status = told("repos", "status", "-w", folder)
    events = folded_events(folder)
    assert waiting and not events.wrong and status[0]["live"]["desynchronized"]
    note(
        folder,
        acts=acts,
        status=status,
        waiting=waiting,
        archived=archived(folder),
        events=sorted(events.ids),
    )


# The program itself, with small batches of what a short log has.
_IN_BATCHES = """
import sys
from trawlnet.cli.main import run
from trawlnet.crawlers.atproto import mirror
mirror._BATCH = 10
sys.exit(run(sys.argv[1:]))
"""


def plc_killed(folder: Path, scratch: Path) -> None:
    """Half of the directory is mirrored."""

    async def main() -> None:
        directory = await worlds.plc_directory(scratch)
        async with serving(directory, worlds.PLC_PORT) as url:
            words = [str(word) for word in plc_words(url, folder)]
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", _IN_BATCHES, *words), env=environment()
            )
            half = len(directory.lines) // 2 // directory.most
            while len(directory.requests) < half:
                assert process.returncode is None
                await asyncio.sleep(0.01)
            process.kill()
            await process.wait()

    asyncio.run(main())
    sql = "SELECT source, form, position FROM mirror_cursors FINAL"
    count = "SELECT count() AS operations FROM plc_operations FINAL"
    (cursor,), (stored,) = (told("repos", "query", "-w", folder, one) for one in (sql, count))
    assert int(cursor["position"]) > 0
    note(folder, cursor=cursor, **stored)


def repos_redis(folder: Path, scratch: Path) -> None:
    with redis_server() as server:
        repos_killed(folder, scratch, "--redis-address", server.url)
        ice.freeze_redis(server.url, folder)


async def parts_in(archive: Path, supervising: asyncio.Task[Any]) -> None:
    while len([path for path in archive.glob("parts/**/*") if path.is_file()]) < 4:
        assert not supervising.done(), "too late"
        await asyncio.sleep(0.02)


def repos_fleet(folder: Path, scratch: Path) -> None:
    async def main(url: str, world: Any) -> None:
        archive = folder / "archive"
        slow = {"default_pds_rps": 6.0, "small_pds_rps": 6.0}
        config = fleets.fleet_config(world.ready_line(), url, str(archive), **slow)
        runtime = fleets.Processes(fleets.job_of(config, scratch), scratch)
        try:
            async with fleets.commanded(config, runtime) as command:
                await begin(command.keys, 2)
                supervising = asyncio.create_task(supervise(command))
                await parts_in(archive, supervising)
                for shard in list(runtime.running):
                    runtime.kill(shard)
                supervising.cancel()
        finally:
            runtime.close()

    with redis_server() as server:
        with in_thread(worlds.repos_world(scratch / "log")) as world:
            asyncio.run(main(server.url, world))
        note(folder, status=told("fleet", "status", "--store", server.url))
        ice.freeze_redis(server.url, folder)


def web_killed(folder: Path, scratch: Path, *more: object) -> None:
    (folder / "trawlnet.yaml").write_text(yaml.safe_dump({"web": WEB_CONFIG}))
    with in_thread(worlds.web_world(scratch / "log", latency=0.02)) as world:
        words = (*web_words(world, folder, 6), "--warc", *more)
        killed(words, lambda: len(captured(folder)) >= 15, "captured pages", scratch)
    note(
        folder,
        status=told("web", "status", "-w", folder, *more),
        failures=told("web", "failures", "-w", folder, *more),
        captured=captured(folder),
    )


def web_scrape(folder: Path, scratch: Path) -> None:
    """A finished crawl whose pages were being asked for once more."""
    (folder / "trawlnet.yaml").write_text(yaml.safe_dump({"web": WEB_CONFIG}))
    with in_thread(worlds.small_web_world(scratch / "log", latency=0.02)) as world:
        done = trawlnet(*web_words(world, folder, 200))
        assert done.code in (0, 3), done.err
        words = scrape_words(folder, 4)
        killed(words, lambda: len(captured(folder, SCRAPE)) >= 6, "pages scraped", scratch)
    note(folder, captured=captured(folder), scraped=captured(folder, SCRAPE))


def web_redis(folder: Path, scratch: Path) -> None:
    with redis_server() as server:
        web_killed(folder, scratch, "--redis-address", server.url)
        ice.freeze_redis(server.url, folder)


def web_fleet_(folder: Path, scratch: Path) -> None:
    async def main(url: str, world: Any) -> None:
        archive = folder / "archive"
        slow = {"limits": {"req_per_sec": 8}}
        config = web_fleet.web_fleet_config(world, url, str(archive), **slow)
        runtime = fleets.Processes(web_fleet.web_job(config, scratch), scratch)
        try:
            async with web_fleet.web_command(config, runtime) as command:
                await begin(command.keys, 2, "web")
                supervising = asyncio.create_task(supervise(command))
                await parts_in(archive, supervising)
                for shard in list(runtime.running):
                    runtime.kill(shard)
                supervising.cancel()
        finally:
            runtime.close()

    with redis_server() as server:
        with in_thread(worlds.web_world(scratch / "log", latency=0.02)) as world:
            asyncio.run(main(server.url, world))
        note(folder, status=told("fleet", "status", "--store", server.url))
        ice.freeze_redis(server.url, folder)


def ids_killed(
    folder: Path, scratch: Path, *more: object, publishing: tuple[object, ...] = ()
) -> None:
    with in_thread(worlds.ids_world(scratch / "log")) as world:
        first, until = ids_range(world.traffic)
        words = (*ids_words(world, folder), "--max-rps", 60, *more, *publishing)

        def far() -> bool:
            now = folder / "state" / "ids" / "now.json"
            return now.exists() and json.loads(now.read_bytes())["done"] > (until - first) // 3

        killed(words, far, "progress", scratch)
        if not more:
            told("ids", "store", "-w", folder, "--drain")
            killed(words, lambda: (scratch / "log").stat().st_size > 0, "a little more", scratch)
    note(
        folder,
        status=told("ids", "status", "-w", folder, *more),
        gaps=told("ids", "gaps", "-w", folder, *more),
        missed=told("ids", "missed", "-w", folder, *more),
    )


def ids_redis(folder: Path, scratch: Path) -> None:
    """What it has published is in RabbitMQ, and frozen as the bodies of messages."""
    with redis_server() as server, rabbitmq_server() as rabbit:
        queue = ("--queue", rabbit.url)
        ids_killed(folder, scratch, "--store", server.url, publishing=queue)
        ice.freeze_redis(server.url, folder)
        asyncio.run(ice.freeze_rabbit(rabbit.url, ["instance_store"], folder))


def pds_killed(folder: Path, scratch: Path, *more: object) -> None:
    with in_thread(worlds.pds_world(scratch / "log")) as world:
        private = ("--allow-private-hosts", "--no-ask")
        for pds in world.pdses:
            told("pds", "register", "-w", folder, world.url(pds), *private, *more)
        told("pds", "ban", "-w", folder, "pds.banned.org", "--reason", "it asked for it", *more)
        words = (*pds_words(world, folder), "--requests-per-minute", 400, *more)
        asked = lambda: sum(pds.asked["listRecords"] for pds in world.pdses)  # noqa: E731
        killed(words, lambda: asked() >= 35, "some repos read", scratch)
    note(
        folder,
        status=told("pds", "status", "-w", folder, *more),
        list=told("pds", "list", "-w", folder, *more),
        bans=told("pds", "bans", "-w", folder, *more),
    )


def pds_follow(folder: Path, scratch: Path) -> None:
    """Killed in the midst of a stream, with accounts that are still to be looked at."""
    acts = 0
    late = ("--rescan-pause", "5h", "--look-pause", 60)
    with worlds.followed_world(scratch) as world:
        words = (*follow_command(folder, world.living), *late)
        with started(*words, folder=scratch) as crawl:
            until_true(crawl, folder, world.living)
            begun = position(folder)
            while acts < 30 or position(folder) <= begun or not rows_of(folder, _WAITING):
                world.happen(acts, acts + 1, drops=False)
                acts += 1
                crawl.until(lambda: True, "the next act")
                time.sleep(0.05)
            crawl.process.kill()
            crawl.process.wait()
    looks, cursor = rows_of(folder, _WAITING), position(folder)
    assert looks
    note(
        folder,
        acts=acts,
        cursor=cursor,
        looks=sorted(did for (did,) in looks),
        status=told("pds", "status", "-w", folder),
        list=told("pds", "list", "-w", folder),
    )


_WAITING = "SELECT did FROM pds_looks WHERE asked > seen"


def pds_postgres(folder: Path, scratch: Path) -> None:
    with postgres_server() as server:
        pds_killed(folder, scratch, "--registry", server.url)
        ice.freeze_postgres(server.url, folder)


MADE = {
    "repos-killed": repos_killed,
    "repos-done": repos_done,
    "repos-follow": repos_follow,
    "plc-killed": plc_killed,
    "repos-redis": repos_redis,
    "repos-fleet": repos_fleet,
    "web-killed": web_killed,
    "web-redis": web_redis,
    "web-scrape": web_scrape,
    "web-fleet": web_fleet_,
    "ids-killed": ids_killed,
    "ids-redis": ids_redis,
    "pds-killed": pds_killed,
    "pds-follow": pds_follow,
    "pds-postgres": pds_postgres,
}


def main() -> None:
    version, *names = sys.argv[1:]
    for name in names or MADE:
        with tempfile.TemporaryDirectory() as place:
            folder, scratch = Path(place) / "frozen", Path(place) / "scratch"
            folder.mkdir()
            scratch.mkdir()
            MADE[name](folder, scratch)
            made = ice.freeze(f"{name}-{version}", folder)
            print(f"{made.name}: {made.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
