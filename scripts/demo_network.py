"""The demo's network: what `trawlnet sim atproto` serves, with a log of every request."""

# ruff: noqa: T201 - Its one line on stdout says that it is ready.
from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from trawlnet.sim.atproto.world import serve_atproto


async def serve(seed: int, scale: float, folder: Path) -> None:
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    world = await serve_atproto(
        seed, scale, manifest=folder / "manifest.json", log=folder / "requests.jsonl"
    )
    try:
        print(json.dumps(world.ready_line()), flush=True)
        await told.wait()
    finally:
        await world.close()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])))
