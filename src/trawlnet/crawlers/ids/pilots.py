"""The pilot for a way of scaling: everything else about a crawl is the same."""

from __future__ import annotations

from collections.abc import Iterable

from trawlnet.crawlers.ids.adaptive.pilot import AdaptivePilot
from trawlnet.crawlers.ids.classic.pilot import ClassicPilot
from trawlnet.crawlers.ids.controls import Controls


def make_pilot(
    scaling: str,
    controls: Controls,
    first: int,
    pending: Iterable[tuple[int, int]] = (),
    beyond: int | None = None,
    embargoed: Iterable[int] = (),
    unsurveyed: Iterable[tuple[int, int, int]] = (),
) -> AdaptivePilot | ClassicPilot:
    """Begins at `first`; or goes on: `pending` ranges are asked for again, `beyond` is the next
    id that was never asked for, `embargoed` are ids to look at now and then, and `unsurveyed`
    are the gaps that are to be searched for islands, with the step that was searched last."""
    kind = ClassicPilot if scaling == "classic" else AdaptivePilot
    return kind(controls, first, pending, beyond, embargoed, unsurveyed)
