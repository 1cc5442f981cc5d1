"""What becomes of a look: the account rests, whatever was found."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from trawlnet.crawlers.pds.following.look_scheduler import LookLimits, LookScheduler
from trawlnet.crawlers.pds.scanning.account import ELSEWHERE
from trawlnet.crawlers.pds.scanning.parts import ScanCounts, ScanResult, ScanVerdict
from trawlnet.engine.outcome import Reason
from trawlnet.tables.registry.looks import DueLook

NOW, PAUSE = 1_790_000_000.0, 600.0
HERE, ALICE = "https://pds.village.social", "did:plc:aliceaaaaaaaaaaaaaaaaaaa"


class Looks:
    """Notes what it is told about looks, and until when their accounts rest."""

    def __init__(self) -> None:
        self.told: list[tuple[str, float]] = []

    def __getattr__(self, name: str) -> Any:
        async def note(*values: Any) -> None:
            self.told.append((name, values[-1]))

        return note


async def at_once(act: Any) -> Any:
    return await act()


def ended(verdict: ScanVerdict, reason: Reason, detail: str = "") -> ScanResult:
    return ScanResult(verdict, reason, detail, None, ScanCounts(), 1, 0, 0, {}, 0)


@pytest.mark.parametrize(
    ("result", "how"),
    [
        (ended(ScanVerdict.COMPLETE, Reason.OK), "looked"),
        (ended(ScanVerdict.PARTIAL, Reason.OK), "left_to_scan"),
        (ended(ScanVerdict.FAILED, Reason.NOT_FOUND, ELSEWHERE), "moved"),
        (ended(ScanVerdict.FAILED, Reason.NOT_FOUND), "looked"),
    ],
    ids=["complete", "partial", "elsewhere", "failed"],
)
def test_an_account_rests_after_a_look(result: ScanResult, how: str) -> None:
    looks: Any = Looks()
    store: Any = SimpleNamespace(patiently=at_once)
    scans: Any = SimpleNamespace(clock=SimpleNamespace(now=lambda: NOW))
    nobody: Any = None
    limits = LookLimits(PAUSE, 30.0, 60.0, 3600.0)
    scheduler = LookScheduler(looks, nobody, store, scans, limits)
    look = DueLook(ALICE, 1, False, 0, is_held=True)
    asyncio.run(scheduler._judge(HERE, look, result))
    assert looks.told == [(how, NOW + PAUSE)]
