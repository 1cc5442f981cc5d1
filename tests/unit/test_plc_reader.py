"""Reading the directory's export, where it may not be asked at all."""

from __future__ import annotations

import pytest

from trawlnet.crawlers.atproto.export import Place
from trawlnet.crawlers.atproto.reader import Directory, ExportReader, Tally
from trawlnet.crawlers.contact import agent_for
from trawlnet.crawlers.errors import NotReady
from trawlnet.engine.gate import Gate
from trawlnet.engine.rules import Manners
from trawlnet.net.http import Http
from trawlnet.sim.virtual import SimClock, run_sim


@pytest.mark.parametrize("tireless", [True, False])
def test_an_address_that_we_refuse_ourselves_is_told_at_once(tireless: bool) -> None:
    """Not after four minutes of retries, and not never for a mirror that follows."""

    async def main() -> None:
        clock = SimClock()
        gate = Gate(clock, Manners())
        async with Http(gate, clock, agent_for("a@b.example", allow_private=False)) as http:
            directory = Directory("http://127.0.0.1:2582", http, gate, clock)
            reader = ExportReader(directory, Tally(), tireless=tireless)
            with pytest.raises(NotReady, match="is not asked") as refused:
                await reader.page(Place())
        assert "--allow-private-hosts" in refused.value.hint
        assert clock.now() < 1.0

    run_sim(main())
