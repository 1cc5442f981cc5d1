"""Reports of a shard to dashboards, and the commands that dashboards send to it."""

from __future__ import annotations

from dataclasses import dataclass

from trawlnet.engine.control import Control
from trawlnet.engine.gate import Gate
from trawlnet.engine.ports import Clock
from trawlnet.native.zstd import FrameWriter, ZstdError, read_frame
from trawlnet.observe.lane_table import MOST_LANES, LaneTable, LaneWriter, read_table
from trawlnet.stores.redis.window import FleetWindow, Wishes

_LOOK_EVERY = 2.0  # Seconds.
_ALL_LANES = 20_000  # Lanes of all shards; each reports its share.
_FEWEST_LANES = 200
_LARGEST_TABLE = 32 << 20  # Bytes of one shard's table, unpacked.


@dataclass(frozen=True, slots=True)
class Teller:
    window: FleetWindow
    shard: int
    shards: int
    clock: Clock

    async def run(self, gate: Gate, control: Control) -> None:
        """Report lanes while the shard crawls and a dashboard watches; otherwise only check for
        one."""
        most = min(MOST_LANES, max(_FEWEST_LANES, _ALL_LANES // self.shards))
        writer, packer = LaneWriter(), FrameWriter(1, False)
        before: Wishes | None = None
        while True:
            wishes = await self.window.wishes()
            heed(control, before, wishes)
            before = wishes
            if wishes.watched:
                table = writer.table(gate.columns(most), gate.remembered, self.clock.now())
                await self.window.tell_lanes(self.shard, packer.frame(table))
            await self.clock.sleep(_LOOK_EVERY)


def heed(control: Control, before: Wishes | None, now: Wishes) -> None:
    if now.paused and not control.paused:
        control.pause()
    elif control.paused and not now.paused:
        control.resume()
    if before is not None and now.again != before.again:
        control.look_again()


def unpacked(packed: bytes) -> LaneTable:
    """The table of lanes; an unreadable one becomes empty."""
    try:
        return read_table(read_frame(packed, _LARGEST_TABLE))
    except ZstdError:
        return LaneTable()
