"""Kill the mirror at random instants, and show that nothing is lost or wrong afterwards."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from pathlib import Path

import pytest

from tests.support.atproto.odd_directory import OddDirectory, serving
from tests.support.atproto.plc_truth import check_whole, lines_of
from tests.support.atproto.visitor import open_world
from tests.support.long import times
from tests.support.program import environment
from trawlnet.sim.atproto.plc_stream import StreamHabits
from trawlnet.tables.clickhouse.open import opened

KILLS = times(4, 12)
# The program itself, with small batches: many instants to be killed at in a short log.
PROGRAM = """
import sys
from trawlnet.cli.main import run
from trawlnet.crawlers.atproto import mirror
mirror._BATCH = 20
sys.exit(run(sys.argv[1:]))
"""


async def start(url: str, workspace: Path, *more: str) -> asyncio.subprocess.Process:
    flags = ("--plc-url", url, "--allow-private-hosts", "--plc-rps", "400", *more)
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", PROGRAM, "repos", "plc", "-w", str(workspace), *flags),
        stderr=asyncio.subprocess.PIPE,
        env=environment(),
    )


async def killed(url: str, directory: OddDirectory, workspace: Path, rng: random.Random) -> bool:
    """Start it and kill it a few requests after it has begun; whether it was still at work."""
    process = await start(url, workspace)
    line = await process.stderr.readline()
    assert b"mirroring" in line, line
    # By its progress, not by the clock: a fast machine would be done before it is killed.
    enough = len(directory.requests) + rng.randint(1, 12)
    while len(directory.requests) < enough and process.returncode is None:
        await asyncio.sleep(0.002)
    await asyncio.sleep(rng.uniform(0.0, 0.02))
    if process.returncode is None:
        process.send_signal(signal.SIGKILL)
    await process.communicate()
    return process.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_a_mirror_that_is_killed_again_and_again_ends_up_exact(tmp_path):
    rng = random.Random(5)

    async def test():
        async with open_world(tmp_path, habits=()) as visitor:
            log = await lines_of(visitor.world), visitor.dids
        directory, cut = OddDirectory(log[0], most=5), 0
        async with serving(directory) as url:
            for round_number in range(KILLS):
                # Every third round ends in a fresh workspace, so that all ages are hit.
                workspace = tmp_path / f"w{round_number // 3}"
                cut += await killed(url, directory, workspace, rng)
            for number in range(KILLS // 3):
                workspace = tmp_path / f"w{number}"
                process = await start(url, workspace)
                _, said = await process.communicate()
                assert process.returncode == 0, said.decode()
                async with opened(workspace / "tables") as tables:
                    await check_whole(tables, log)
        assert cut >= KILLS // 2, "most of them were at work when they were killed"

    asyncio.run(test())


def test_a_mirror_that_is_told_to_stop_saves_and_says_how_to_go_on(tmp_path):
    async def test():
        async with open_world(tmp_path, habits=()) as visitor:
            log = await lines_of(visitor.world), visitor.dids
        async with serving(OddDirectory(log[0], most=2)) as url:
            process = await start(url, tmp_path / "w")
            assert b"mirroring" in await process.stderr.readline()
            process.send_signal(signal.SIGTERM)
            _, said = await process.communicate()
            assert process.returncode == 130, said.decode()
            assert b"hint: continue: trawlnet repos plc" in said
            process = await start(url, tmp_path / "w")
            await process.communicate()
            async with opened(tmp_path / "w" / "tables") as tables:
                await check_whole(tables, log)

    asyncio.run(test())


STREAM_KILLS = times(3, 12)


@pytest.mark.slow
def test_a_mirror_that_follows_a_stream_and_is_killed_again_and_again_ends_up_exact(tmp_path):
    """Some of it comes in pages, the rest over a stream that misbehaves, while the log grows."""
    rng = random.Random(6)

    async def test():
        async with open_world(tmp_path, habits=()) as visitor:
            log = await lines_of(visitor.world), visitor.dids
        directory, workspace = OddDirectory(log[0][:30], most=20), tmp_path / "w"
        directory.open_stream(StreamHabits(repeat_every=7, drop_every=23, close_every=41))
        async with serving(directory) as url:
            for _ in range(STREAM_KILLS):
                process = await start(url, workspace, "--follow")
                try:
                    assert b"mirroring" in await process.stderr.readline()
                    await grown(directory, log[0], rng.randint(5, 40), rng)
                finally:  # It would follow for ever.
                    process.send_signal(signal.SIGKILL)
                    await process.communicate()
            directory.lines = log[0]
            process = await start(url, workspace)
            _, said = await process.communicate()
            assert process.returncode == 0, said.decode()
        assert directory.stream.told > 0
        async with opened(workspace / "tables") as tables:
            await check_whole(tables, log)

    asyncio.run(test())


async def grown(directory, lines, count, rng):
    """So many more operations, once the mirror listens."""
    heard = len(directory.stream.cursors)
    async with asyncio.timeout(120):
        while len(directory.stream.cursors) == heard:
            await asyncio.sleep(0.01)
    for _ in range(count):
        directory.lines = lines[: len(directory.lines) + 1]
        await asyncio.sleep(rng.uniform(0.0, 0.02))
