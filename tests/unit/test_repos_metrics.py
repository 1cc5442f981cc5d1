"""Every metric that the repos crawler promises is exposed, with its type and labels."""

from __future__ import annotations

import asyncio
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.support.repos.run import Crawled, run_relay
from trawlnet.sim.atproto.world import serve_atproto
from trawlnet.sim.habits import Habit

PROMISED = {
    "crawler_repos_processed": ("counter", {"result"}),
    "crawler_repo_duration_seconds": ("histogram", set()),
    "crawler_repo_records": ("histogram", set()),
    "crawler_repo_collections": ("histogram", set()),
    "crawler_repo_compressed_bytes": ("histogram", set()),
    "crawler_http_requests": ("counter", {"status_code"}),
    "crawler_http_request_duration_seconds": ("histogram", set()),
    "crawler_segments_finalized": ("counter", set()),
    "crawler_bytes_written": ("counter", set()),
    "crawler_dids_processed": ("counter", set()),
    "crawler_pages_fetched": ("counter", set()),
    "crawler_page_dids": ("histogram", set()),
    "crawler_pds_count": ("gauge", set()),
    "crawler_dispatched": ("counter", set()),
    "crawler_dispatch_remaining": ("gauge", set()),
    "crawler_pds_blocked": ("counter", set()),
    "crawler_active_pds": ("gauge", set()),
    "crawler_records_dropped": ("counter", {"reason"}),
    "crawler_dids_left_out": ("counter", {"why"}),
    "crawler_memory_bytes": ("gauge", {"use"}),
    "crawler_repos_spilled": ("counter", set()),
    "crawler_spilled_bytes": ("counter", set()),
}


def test_names_types_labels_and_figures(tmp_path: Path) -> None:
    async def main() -> Crawled:
        habits = {Habit.SERVER_ERROR: 1}
        world = await serve_atproto(3, accounts=120, hosts=5, habits=habits)
        try:
            return await run_relay(world, tmp_path, attempts=12, segment_size=4096)
        finally:
            await world.close()

    crawled = asyncio.run(main())
    families = {one.name: one for one in text_string_to_metric_families(crawled.text)}
    for name, (kind, labels) in PROMISED.items():
        family = families[name]
        assert family.type == kind, name
        found = {label for sample in family.samples for label in sample.labels} - {"le"}
        assert found == labels, name

    def figure(name: str, **labels: str) -> float:
        samples = (s for family in families.values() for s in family.samples)
        (value,) = (s.value for s in samples if s.name == name and s.labels == labels)
        return value

    repos = crawled.metrics.yields["repos"]
    assert figure("crawler_repos_processed_total", result="ok") == repos > 50
    assert figure("crawler_repo_records_count") == repos
    assert figure("crawler_repo_records_sum") == crawled.metrics.yields["records"]
    assert figure("crawler_bytes_written_total") == crawled.metrics.yields["bytes"]
    assert figure("crawler_repo_compressed_bytes_sum") == crawled.metrics.yields["bytes"]
    assert figure("crawler_segments_finalized_total") >= 3
    assert figure("crawler_http_requests_total", status_code="400") > 0
    assert figure("crawler_http_requests_total", status_code="200") > repos
    assert figure("crawler_pds_blocked_total") == 1
    assert figure("crawler_dispatch_remaining") == crawled.counts.open
    assert figure("crawler_active_pds") == 0
    visits = figure("crawler_dispatched_total")
    assert visits == figure("crawler_dids_processed_total") >= repos
    assert figure("crawler_records_dropped_total", reason="too_large") == 0
