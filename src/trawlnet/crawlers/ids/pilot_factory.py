"""Setting out: the pilot that the config names, from where the ledger stands."""

from __future__ import annotations

from trawlnet.crawlers.ids.config import IdsConfig
from trawlnet.crawlers.ids.controls import Controls
from trawlnet.crawlers.ids.ledger.position import LedgerPosition
from trawlnet.crawlers.ids.model import Pilot
from trawlnet.crawlers.ids.pilots import make_pilot


def pilot_for(config: IdsConfig, position: LedgerPosition) -> Pilot:
    embargoed = [n for start, end in position.embargoed for n in range(start, end)]
    return make_pilot(
        config.scaling,
        controls_of(config),
        position.first,
        position.pending,
        position.beyond,
        embargoed,
        position.unsurveyed,
    )


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
