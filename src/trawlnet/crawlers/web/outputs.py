"""Config sections for output: spool, bodies, WARC, tables."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from trawlnet.crawlers.web.section import Section


class SpoolSection(Section):
    discoveries_dir: str = Field(
        "spool/discoveries", min_length=1, description="Folder of the discovery spool."
    )
    rotate_every_mb: float = Field(
        100.0, gt=0, description="Start a new file at this size, in megabytes."
    )
    backpressure_limit_gb: float = Field(
        10.0,
        gt=0,
        description="Pause the crawl while the unread spool is larger than this, in gigabytes.",
    )
    max_backlog_gb: float = Field(
        10.0, gt=0, description="The scraper's name for backpressure_limit_gb."
    )


class StoreSection(Section):
    html_dir: str = Field("store/html", min_length=1, description="Folder of the stored bodies.")
    compress: Literal["none", "zstd"] = Field(
        "none", description="Compression of stored bodies: none or zstd."
    )
    level: int = Field(3, ge=1, le=19, description="Compression level for zstd.")
    permissions: int = Field(
        0o644,
        ge=0,
        le=0o777,
        description="Permissions of each stored body, such as 0o644 (420 in decimal).",
    )
    keep_other_types: bool = Field(False, description="Store bodies that are not HTML as well.")
    near_duplicates: Literal["off", "note", "skip_links"] = Field(
        "off",
        description="Detect pages with nearly the same text: off, note (record it) or "
        "skip_links (follow none of their links).",
    )
    near_distance: int = Field(
        3, ge=0, le=3, description="Most bits in which fingerprints of near duplicates may differ."
    )

    @field_validator("permissions", mode="before")
    @classmethod
    def _as_people_write_it(cls, value: Any) -> Any:
        return int(value, 0) if isinstance(value, str) and value[:2] == "0o" else value


class Warc(Section):
    enabled: bool = Field(False, description="Write WARC files as well.")
    dir: str = Field("warc", min_length=1, description="Folder of the WARC files.")
    compress: Literal["gzip", "zstd"] = Field(
        "gzip", description="Compression of each WARC record: gzip or zstd."
    )
    rotate_every_mb: float = Field(
        1024.0, gt=0, description="Start a new file at this size, in megabytes."
    )


class MetricsSection(Section):
    crawler_csv: str = Field(
        "logs/crawler_metrics.csv",
        min_length=1,
        description="CSV file with the counters of the crawler.",
    )
    scraper_csv: str = Field(
        "logs/scraper_metrics-{run_id}.csv",
        min_length=1,
        description="CSV file with the counters of the scraper.",
    )
    pages_csv: str = Field(
        "logs/pages-{run_id}.csv", min_length=1, description="CSV file with one row per page."
    )
    flush_interval_sec: float = Field(
        10.0, gt=0, description="Write a row of counters this often, in seconds."
    )
    spreadsheet_safe: bool = Field(
        False,
        description="In the pages and edges CSVs, put an apostrophe before text that a "
        "spreadsheet would take for a formula.",
    )


class Trajectory(Section):
    enabled: bool = Field(True, description="Record which page links to which.")
    context: bool = Field(True, description="Record the text around each link as well.")
    edges_csv: str = Field(
        "logs/edges.csv", min_length=1, description="CSV file with the recorded links."
    )
    rotate_every_mb: float = Field(
        100.0, gt=0, description="Start a new file at this size, in megabytes."
    )
