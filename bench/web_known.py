"""Whether a crawl is as fast with a million known URLs as with ten thousand, and what each costs.

    .venv/bin/python bench/web_known.py [--known 10000,1000000] [--pages 2000] [--rounds 3]

Workspaces are filled with settled URLs of another host, in the frontier and in the page index, and
then crawl the site of bench/web.py. Runs are interleaved, each on a fresh copy.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "bench")]

from trawlnet.captures.files import INDEX
from trawlnet.captures.line import CaptureLine
from trawlnet.captures.page_index import Checkpoint, PageIndex, Scopes
from trawlnet.crawlers.web.admission.policy import Policy
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.ports import Page
from trawlnet.engine.task import Task
from trawlnet.stores.lmdb.store import LmdbStore
from web import OURS, Run, run
from web_site import made_site

FRONTIER = "state/web/frontier.lmdb"
AT_ONCE = 20_000  # URLs of one transaction.
LANE = "known.test"


async def fill(workspace: Path, known: int) -> None:
    store = await LmdbStore.open(workspace / FRONTIER)
    policy = Policy(WebConfig())
    index = PageIndex(workspace / INDEX, scopes=Scopes(policy.cap_rules, policy.cap_digests))
    for start in range(0, known, AT_ONCE):
        numbers = range(start, min(start + AT_ONCE, known))
        tasks = [Task(f"https://{LANE}/articles/{n:07}.html", LANE, ["", "page", "", []])
                 for n in numbers]  # fmt: skip
        # Without the cursor of a crawl: this one reads its seeds as if it were new.
        await store.feed(Page(tasks, ""))
        await store.settle([Receipt(task, Reason.OK, at=1.0) for task in tasks])
        index.apply([line(task.key, n) for task, n in zip(tasks, numbers, strict=True)])
        index.commit(Checkpoint())
    await store.close()
    index.close()


def line(url: str, number: int) -> CaptureLine:
    sha256 = f"{number:064x}"
    path = f"store/html/{sha256[:2]}/{sha256[2:4]}/{sha256}.html"
    return CaptureLine(
        1, "r", "v", 1.0, url, 200, page_type="page", content_sha256=sha256, stored_path=path
    )


def bytes_of(workspace: Path) -> dict[str, int]:
    places = {"frontier": FRONTIER, "index": INDEX}
    return {
        what: (workspace / place / "data.mdb").stat().st_blocks * 512
        for what, place in places.items()
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--known", default="10000,1000000")
    options.add_argument("--pages", type=int, default=2000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--fill", type=Path, help="only fill this workspace")
    given = options.parse_args()
    if given.fill:
        asyncio.run(fill(given.fill, int(given.known)))
        return
    sizes = [int(one) for one in given.known.split(",")]
    runs: dict[int, list[Run]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="web-known-") as name:
        folder = Path(name)
        site = made_site(folder / "site", given.pages, 1)
        for known in sizes:
            # In a process of its own: a child begins with the peak memory of its parent.
            filled = [sys.executable, __file__, "--fill", str(folder / f"known-{known}")]
            subprocess.run([*filled, "--known", str(known)], check=True)
            told = bytes_of(folder / f"known-{known}")
            each = ", ".join(f"{what} {size / known:.0f}" for what, size in told.items())
            print(f"{known:>9,} known URLs: bytes each: {each}", flush=True)
        for turn in range(given.rounds):
            for known in sizes:
                place = folder / f"run-{known}-{turn}"
                shutil.copytree(folder / f"known-{known}", place / "out")
                one = run(OURS, site, place)
                if one.faults:
                    raise SystemExit(f"with {known} known URLs: {one.faults}")
                runs[known].append(one)
                shutil.rmtree(place)
    print(f"\nload {os.getloadavg()[0]:.1f}")
    print(f"{'known URLs':>12}{'pages/CPU s':>13}{'anonymous MB':>14}")
    for known, those in runs.items():
        speed = median(one.pages_per_cpu_s for one in those)
        print(f"{known:12,}{speed:13.1f}{median(one.anonymous_mb for one in those):14.1f}")
    fast, slow = (median(o.pages_per_cpu_s for o in runs[known]) for known in sizes[:2])
    print(f"ratio {slow / fast:.3f}")


if __name__ == "__main__":
    main()
