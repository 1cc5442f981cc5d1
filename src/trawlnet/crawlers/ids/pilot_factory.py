"""Makes the configured pilot, at the position of the ledger."""

from __future__ import annotations

from trawlnet.crawlers.ids.adaptive.pilot import AdaptivePilot
from trawlnet.crawlers.ids.classic.pilot import ClassicPilot
from trawlnet.crawlers.ids.config import IdsConfig
from trawlnet.crawlers.ids.controls import Controls
from trawlnet.crawlers.ids.ledger.position import LedgerPosition
from trawlnet.crawlers.ids.model import Pilot, PilotStart


def pilot_for(config: IdsConfig, position: LedgerPosition) -> Pilot:
    embargoed = [n for start, end in position.embargoed for n in range(start, end)]
    start = PilotStart(
        position.first, position.beyond, position.pending, embargoed, position.unsurveyed
    )
    return pilot_at(config.scaling, controls_of(config), start)


def controls_of(config: IdsConfig) -> Controls:
    return Controls(
        workers=config.first_workers,
        min_workers=config.least_workers,
        max_workers=config.most_workers,
        max_rps=config.max_rps,
        freshness=config.freshness,
        patience=config.patience,
        step=config.step,
    )


def make_pilot(scaling: str, controls: Controls, first: int) -> AdaptivePilot | ClassicPilot:
    """The pilot of a crawl that begins at `first`."""
    return pilot_at(scaling, controls, PilotStart(first))


def pilot_at(scaling: str, controls: Controls, start: PilotStart) -> AdaptivePilot | ClassicPilot:
    kind = ClassicPilot if scaling == "classic" else AdaptivePilot
    return kind(controls, start)
