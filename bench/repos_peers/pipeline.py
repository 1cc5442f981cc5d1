"""The peer of bench/repos.py: one of two processes that fetch, decode, compress, append and sync.

What a competent user writes with aiohttp, libipld, orjson and zstandard, and then tunes: uvloop,
no cyclic garbage collector (a repository is a hundred thousand objects without a cycle), sixteen
requests under way, large reads. It verifies nothing, or the hashes of blocks and no more, and
remembers nothing.

    pipeline.py URLS OUTPUT [hashes]    (a file with the URL of each repository)
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import aiohttp
import uvloop
import zstandard

from repo_block_peer import LEVEL, peer_block

UNDER_WAY = 16  # Requests; the other process is computing while this one waits.
SYNC_EVERY = 16  # Blocks.
READ_BYTES = 1 << 20  # That may wait for their reader.


async def pipeline(urls: list[str], output: Path, *, verify: bool) -> None:
    compressor = zstandard.ZstdCompressor(level=LEVEL)
    queue, unsynced = iter(urls), 0
    connector = aiohttp.TCPConnector(limit=UNDER_WAY, limit_per_host=0)
    with output.open("wb") as file:

        async def fetch(session: aiohttp.ClientSession) -> None:
            nonlocal unsynced
            for url in queue:
                async with session.get(url) as response:
                    car = await response.read()
                file.write(peer_block(car, compressor, verify=verify, keep_cids=False))
                unsynced += 1
                if unsynced == SYNC_EVERY:
                    file.flush()
                    unsynced = 0
                    await asyncio.to_thread(os.fsync, file.fileno())

        async with aiohttp.ClientSession(connector=connector, read_bufsize=READ_BYTES) as session:
            await asyncio.gather(*(fetch(session) for _ in range(UNDER_WAY)))
        file.flush()
        os.fsync(file.fileno())


if __name__ == "__main__":
    gc.disable()
    urls = Path(sys.argv[1]).read_text().split()
    uvloop.run(pipeline(urls, Path(sys.argv[2]), verify="hashes" in sys.argv[3:]))
