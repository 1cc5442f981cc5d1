"""Sections of the config about what is written: spool, bodies, WARC, tables."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from trawlnet.crawlers.web.section import Section


class SpoolSection(Section):
    discoveries_dir: str = Field("spool/discoveries", min_length=1, description="Its folder.")
    rotate_every_mb: float = Field(100.0, gt=0, description="Size at which a file is full.")
    backpressure_limit_gb: float = Field(10.0, gt=0, description="The crawler waits above this.")
    max_backlog_gb: float = Field(10.0, gt=0, description="The same, as the scraper calls it.")


class StoreSection(Section):
    html_dir: str = Field("store/html", min_length=1, description="Folder of the bodies.")
    compress: Literal["none", "zstd"] = Field(
        "none", description="How bodies are written: none, zstd."
    )
    level: int = Field(3, ge=1, le=19, description="Compression level of zstd.")
    permissions: int = Field(0o644, ge=0, le=0o777, description="Of each file, such as 0o644.")
    keep_other_types: bool = Field(False, description="Store bodies that are not HTML, too.")
    near_duplicates: Literal["off", "note", "skip_links"] = Field(
        "off", description="Look for pages with nearly the same text: off, note, skip_links."
    )
    near_distance: int = Field(3, ge=0, le=3, description="Bits in which near duplicates differ.")

    @field_validator("permissions", mode="before")
    @classmethod
    def _as_people_write_it(cls, value: Any) -> Any:
        return int(value, 0) if isinstance(value, str) and value[:2] == "0o" else value


class Warc(Section):
    enabled: bool = Field(False, description="Write WARC files, too.")
    dir: str = Field("warc", min_length=1, description="Their folder.")
    compress: Literal["gzip", "zstd"] = Field("gzip", description="Each record: gzip or zstd.")
    rotate_every_mb: float = Field(1024.0, gt=0, description="Size at which a file is full.")


class MetricsSection(Section):
    crawler_csv: str = Field(
        "logs/crawler_metrics.csv", min_length=1, description="Counters of the crawler."
    )
    scraper_csv: str = Field(
        "logs/scraper_metrics-{run_id}.csv", min_length=1, description="Counters of the scraper."
    )
    pages_csv: str = Field(
        "logs/pages-{run_id}.csv", min_length=1, description="One row for each page."
    )
    flush_interval_sec: float = Field(10.0, gt=0, description="Seconds between two rows.")
    spreadsheet_safe: bool = Field(
        False,
        description="Put an apostrophe before what a spreadsheet would take for a formula, in the "
        "pages and edges CSVs.",
    )


class Trajectory(Section):
    enabled: bool = Field(True, description="Write down which page led to which.")
    context: bool = Field(True, description="And the words around each link.")
    edges_csv: str = Field("logs/edges.csv", min_length=1, description="Where.")
    rotate_every_mb: float = Field(100.0, gt=0, description="Size at which a file is full.")
