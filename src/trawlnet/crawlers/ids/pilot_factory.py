"""Makes the configured pilot, at the position of the ledger."""

from __future__ import annotations

from collections.abc import Iterable

from trawlnet.crawlers.ids.adaptive.pilot import AdaptivePilot
from trawlnet.crawlers.ids.classic.pilot import ClassicPilot
from trawlnet.crawlers.ids.config import IdsConfig
from trawlnet.crawlers.ids.controls import Controls
from trawlnet.crawlers.ids.ledger.position import LedgerPosition
from trawlnet.crawlers.ids.model import Pilot


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


def make_pilot(
    scaling: str,
    controls: Controls,
    first: int,
    pending: Iterable[tuple[int, int]] = (),
    beyond: int | None = None,
    embargoed: Iterable[int] = (),
    unsurveyed: Iterable[tuple[int, int, int]] = (),
) -> AdaptivePilot | ClassicPilot:
    """Begins at `first`; or continues: `pending` ranges are requested again, `beyond` is the next
    id that was never requested, `embargoed` are withheld ids, and `unsurveyed` are gaps to survey,
    with the step of the last comb."""
    kind = ClassicPilot if scaling == "classic" else AdaptivePilot
    return kind(controls, first, pending, beyond, embargoed, unsurveyed)
