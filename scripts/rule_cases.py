"""Stories that hold each alert to its promise: one in which it fires, one in which it must not.

Series are in promtool's notation, a value each minute: `0+5x40` begins at 0 and grows by 5 for 40.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_GB = 1 << 30


@dataclass(frozen=True, slots=True)
class Case:
    alert: str
    story: str
    series: Mapping[str, str]
    at: str = "40m"
    labels: Mapping[str, str] = field(default_factory=dict)  # Those of the alert; empty: silent.

    @property
    def fires(self) -> bool:
        return bool(self.labels)


_HERE = {"instance": "a", "job": "trawlnet"}


def _of(crawler: str, **more: str) -> dict[str, str]:
    return {"crawler": crawler, **_HERE, **more}


def _series(name: str, **labels: str) -> str:
    inside = ",".join(f'{key}="{value}"' for key, value in ({**_HERE, **labels}).items())
    return f"{name}{{{inside}}}"


def _tries(crawler: str, **reasons: str) -> dict[str, str]:
    name = "trawlnet_attempts_total"
    return {_series(name, crawler=crawler, reason=r): values for r, values in reasons.items()}


def _crawl(tries: str, paused: int = 0, blocked: int = 0) -> dict[str, str]:
    of_crawl = {"open_tasks": 10, "blocked_tasks": blocked, "paused": paused}
    gauges = {
        _series(f"trawlnet_{name}", crawler="web"): f"{value}x60"
        for name, value in of_crawl.items()
    }
    return _tries("web", ok=tries, timeout="3x60") | gauges


def _disk(free: str, size: float) -> dict[str, str]:
    name = "trawlnet_disk_bytes"
    return {
        _series(name, crawler="web", kind="free"): free,
        _series(name, crawler="web", kind="size"): f"{size:.0f}x200",
    }


def _files(most: int) -> dict[str, str]:
    workers = {_series("trawlnet_workers", crawler="web"): "8x60"}
    used = {_series("process_open_fds"): "950x60", _series("process_max_fds"): f"{most}x60"}
    return workers | used


def _written(values: str) -> dict[str, str]:
    read = {_series("crawler_repos_processed_total", result="ok"): "0+10x60"}
    return read | {_series("crawler_bytes_written_total"): values}


def _dropped(values: str) -> dict[str, str]:
    dropped = {_series("crawler_records_dropped_total", reason="too_large"): values}
    return dropped | {_series("crawler_repo_records_sum"): "0+1000x80"}


def _stream(behind: str, connected: int) -> dict[str, str]:
    upstream = {"upstream": "relay.example"}
    return {
        _series("trawlnet_follow_seconds_behind", **upstream): behind,
        _series("trawlnet_follow_connected", **upstream): f"{connected}x60",
    }


def _rejected(values: str, commits: str) -> dict[str, str]:
    reason = "bad_signature"
    return {
        _series("trawlnet_follow_rejected_total", reason=reason): values,
        _series("trawlnet_follow_rejected_total", reason="bad_car"): "0x60",
        _series("trawlnet_follow_frames_total", kind="commit"): commits,
        _series("trawlnet_follow_frames_total", kind="identity"): "0+1x60",
    }


def _scans(error: str, success: str) -> dict[str, str]:
    name = "chive_pds_scans_total"
    return {_series(name, status="error"): error, _series(name, status="success"): success}


def _records(error: str) -> dict[str, str]:
    name, common = "chive_pds_records_indexed_total", {"collection": "pub.chive.review.comment"}
    return {
        _series(name, status="error", **common): error,
        _series(name, status="success", **common): "0+100x80",
    }


def _asked(server_errors: str) -> dict[str, str]:
    name, common = "trawlnet_registry_requests_total", {"route": "/hosts"}
    return {
        _series(name, status_class="5xx", **common): server_errors,
        _series(name, status_class="2xx", **common): "0+100x60",
    }


def _lags(below_300: str, all_of_them: str) -> dict[str, str]:
    name, labels = "pgcr_crawl_summary_lag_bucket", {"status": "1", "attempts": "1"}
    return {
        _series(name, le=le, **labels): values
        for le, values in (("300", below_300), ("600", all_of_them), ("+Inf", all_of_them))
    }


def _statuses(**numbered: str) -> dict[str, str]:
    name = "pgcr_crawl_summary_status"
    return {
        _series(name, status=number.lstrip("n"), attempts="1"): values
        for number, values in numbered.items()
    }


def _stored(pages: str, unchanged: str) -> dict[str, str]:
    return {
        _series("trawlnet_http_requests_total", crawler="web", status_class="2xx"): "0+10x90",
        _series("trawlnet_web_pages_total", page_type="page"): pages,
        _series("trawlnet_web_pages_unchanged_total"): unchanged,
    }


def _pair(
    alert: str,
    labels: Mapping[str, str],
    fires: tuple[str, Mapping[str, str]],
    silent: tuple[str, Mapping[str, str]],
    at: str = "40m",
) -> tuple[Case, Case]:
    return (Case(alert, fires[0], fires[1], at, labels), Case(alert, silent[0], silent[1], at))


CASES: tuple[Case, ...] = (
    *_pair(
        "TrawlnetUnreachable",
        _HERE,
        ("a target is away", {_series("up"): "0x60"}),
        ("a target was away for a moment", {_series("up"): "1x30 0x5 1x30"}),
    ),
    *_pair(
        "TrawlnetStalled",
        _of("web"),
        ("nothing ends any more", _crawl("5x60")),
        ("tries end", _crawl("0+1x60")),
        at="50m",
    ),
    Case("TrawlnetStalled", "somebody has paused it", _crawl("5x60", paused=1), "50m"),
    Case("TrawlnetStalled", "only blocked tasks are left", _crawl("5x60", blocked=10), "50m"),
    *_pair(
        "TrawlnetErrorsRunAway",
        _of("web"),
        ("three of four time out", _tries("web", ok="0+10x60", timeout="0+30x60")),
        ("most say no, which is an answer", _tries("web", ok="0+10x60", not_found="0+90x60")),
    ),
    Case(
        "TrawlnetErrorsRunAway",
        "three of four steps of scans time out",
        _tries("pds", ok="0+10x60", timeout="0+30x60"),
    ),
    Case(
        "TrawlnetErrorsRunAway",
        "all fail, and they are few",
        _tries("web", ok="0x60", timeout="0+1x60"),
    ),
    *_pair(
        "TrawlnetOwnTrouble",
        _of("web", reason="unknown"),
        ("a bug in every minute", _tries("web", unknown="0+1x60")),
        ("one bug long ago", _tries("web", unknown="0 1x60")),
    ),
    *_pair(
        "TrawlnetHostsBlocked",
        _of("web", state="blocked"),
        (
            "a host was blocked just now",
            {_series("trawlnet_lanes", crawler="web", state="blocked"): "2x35 3x30"},
        ),
        (
            "hosts are blocked for long, and others are fine",
            {
                _series("trawlnet_lanes", crawler="web", state="blocked"): "2x60",
                _series("trawlnet_lanes", crawler="web", state="healthy"): "0+1x60",
            },
        ),
    ),
    *_pair(
        "TrawlnetThrottled",
        _of("web"),
        ("one of three is throttled", _tries("web", ok="0+20x60", rate_limited="0+10x60")),
        ("one of ten is throttled", _tries("web", ok="0+90x60", rate_limited="0+10x60")),
    ),
    *_pair(
        "TrawlnetDiskNearlyFull",
        _of("web"),
        ("a fiftieth is free", _disk(f"{2 * _GB}x200", 100 * _GB)),
        ("a hundredth of a huge disk is free", _disk(f"{100 * _GB}x200", 10_000 * _GB)),
    ),
    Case("TrawlnetDiskNearlyFull", "a small disk is fine", _disk(f"{2 * _GB}x200", 4 * _GB)),
    *_pair(
        "TrawlnetDiskFullSoon",
        _of("web", kind="free"),
        ("a gigabyte a minute", _disk(f"{300 * _GB}-{_GB}x200", 1000 * _GB)),
        ("a megabyte a minute", _disk(f"{300 * _GB}-{1 << 20}x200", 1000 * _GB)),
        at="120m",
    ),
    *_pair(
        "TrawlnetFilesNearlyOut",
        _HERE,
        ("950 of 1000", _files(1000)),
        ("950 of many", _files(65_536)),
    ),
    *_pair(
        "TrawlnetReposNothingWritten",
        {**_HERE, "result": "ok"},
        ("the archive does not grow", _written("500x60")),
        ("the archive grows", _written("0+500x60")),
    ),
    *_pair(
        "TrawlnetReposRecordsDropped",
        _HERE,
        ("one in twenty", _dropped("0+50x80")),
        ("one in a thousand", _dropped("0+1x80")),
        at="60m",
    ),
    *_pair(
        "TrawlnetFollowBehind",
        {**_HERE, "upstream": "relay.example"},
        ("ten minutes behind, and connected", _stream("600x60", 1)),
        ("two minutes behind", _stream("120x60", 1)),
    ),
    Case("TrawlnetFollowBehind", "ten hours behind, and catching up", _stream("36000-60x60", 1)),
    Case("TrawlnetFollowBehind", "not connected: another alert says so", _stream("0+60x60", 0)),
    *_pair(
        "TrawlnetFollowNotConnected",
        {**_HERE, "upstream": "relay.example"},
        ("never connected", _stream("0x60", 0)),
        ("connected and quiet", _stream("0x60", 1)),
    ),
    *_pair(
        "TrawlnetFollowRejected",
        _HERE,
        ("a fifth are forged", _rejected("0+20x60", "0+100x60")),
        ("one in a hundred is forged", _rejected("0+20x60", "0+2000x60")),
    ),
    Case("TrawlnetFollowRejected", "a fifth, and they are few", _rejected("0+1x60", "0+5x60")),
    *_pair(
        "TrawlnetPdsScansFail",
        _HERE,
        ("two of three fail", _scans("0+2x120", "0+1x120")),
        ("one of three fails", _scans("0+1x120", "0+2x120")),
        at="90m",
    ),
    Case("TrawlnetPdsScansFail", "one scan, which failed", _scans("0x60 1x60", "0x120"), "90m"),
    *_pair(
        "TrawlnetPdsRecordsRefused",
        _HERE,
        ("one in three", _records("0+50x80")),
        ("one in a hundred", _records("0+1x80")),
        at="70m",
    ),
    *_pair(
        "TrawlnetRegistryErrors",
        _HERE,
        ("one in ten", _asked("0+12x60")),
        ("one in a hundred", _asked("0+1x60")),
    ),
    *_pair(
        "TrawlnetIdsLagging",
        _HERE,
        ("all are late", _lags("0x60", "0+100x60")),
        ("all are on time", _lags("0+100x60", "0+100x60")),
    ),
    *_pair(
        "TrawlnetIdsApiOff",
        _HERE,
        ("it says so again and again", _statuses(n4="0+1x60", n1="0+100x60")),
        ("it said so long ago", _statuses(n4="0 9x60", n1="0+100x60")),
    ),
    *_pair(
        "TrawlnetIdsNewestOld",
        _HERE,
        ("nothing new for half an hour", {_series("trawlnet_ids_newest_age_seconds"): "0+60x60"}),
        ("always fresh", {_series("trawlnet_ids_newest_age_seconds"): "42x60"}),
    ),
    *_pair(
        "TrawlnetIdsMostlyNotFound",
        _HERE,
        ("nine of ten are not there", _statuses(n1="0+10x60", n3="0+90x60")),
        ("one of ten is not there", _statuses(n1="0+90x60", n3="0+10x60")),
    ),
    *_pair(
        "TrawlnetWebNothingStored",
        {"crawler": "web", **_HERE, "status_class": "2xx"},
        ("answers come, no page is stored", _stored("7x90", "0x90")),
        ("a second visit, nothing has changed", _stored("7x90", "0+10x90")),
        at="70m",
    ),
)
