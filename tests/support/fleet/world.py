"""A simulated network as a process of its own.

Run as `python -m tests.support.fleet.world SEED ACCOUNTS HOSTS LATENCY LOG`.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

from trawlnet.sim.atproto.world import serve_atproto


async def main(seed: int, accounts: int, hosts: int, latency: float, log: Path) -> None:
    world = await serve_atproto(
        seed,
        accounts=accounts,
        hosts=hosts,
        habits=(),
        latency=latency,
        log=log,
        keep_exports=True,
    )
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    print(json.dumps(world.ready_line()), flush=True)
    await stop.wait()
    await world.close()


if __name__ == "__main__":
    seed, accounts, hosts, latency, log = sys.argv[1:]
    asyncio.run(main(int(seed), int(accounts), int(hosts), float(latency), Path(log)))
