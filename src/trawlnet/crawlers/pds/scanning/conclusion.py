"""What a walk to the end means for its PDS."""

from __future__ import annotations

from trawlnet.crawlers.pds.scanning.ending import SliceEnd, failed
from trawlnet.crawlers.pds.scanning.parts import ScanVerdict
from trawlnet.crawlers.pds.scanning.state import Scan
from trawlnet.engine.outcome import Reason

_TOMORROW = 86_400.0


async def conclusion(scan: Scan) -> SliceEnd:
    """That there is nothing may be said only if nothing failed."""
    held = await scan.parts.tables.held(scan.pds)
    has_wanted = any(map(scan.parts.routes.wants, held.records))
    troubles = dict(await scan.parts.tables.troubles(scan.key, scan.progress.walk))
    sound = troubles.pop("", 0)
    if not troubles:
        if scan.strangers and not has_wanted:
            if scan.lacks_describe:
                return failed(Reason.REFUSED, "it lists accounts of others only")
            detail = f"{scan.strangers} accounts with records live elsewhere"
            return SliceEnd(ScanVerdict.COMPLETE, Reason.REFUSED, detail, error=detail)
        return SliceEnd(ScanVerdict.COMPLETE, Reason.OK)
    worst = Reason(max(troubles, key=lambda trouble: troubles[trouble]))
    count = sum(troubles.values())
    detail = f"{count} of {count + sound} repos could not be read: {worst}"
    if has_wanted:
        return SliceEnd(ScanVerdict.COMPLETE, Reason.OK, detail, error=detail)
    if count <= sound:
        return SliceEnd(ScanVerdict.PARTIAL, Reason.OK, detail, _TOMORROW, error=detail)
    return failed(worst, detail)
