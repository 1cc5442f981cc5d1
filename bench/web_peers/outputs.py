"""What ours leaves behind, for peers: bodies by sha256, the page and edge tables, discoveries.

Written as cheaply as files can be: buffered, without syncing, unless `synced` asks for that.
"""

from __future__ import annotations

import csv
import ctypes
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from time import time

PAGES_PER_SYNC = 96  # As many as ours writes together.
PAGE_COLUMNS = (
    "timestamp,url,page_type,depth,referrer,http_status,content_type,encoding,content_sha256,"
    "content_bytes,stored_path,etag,last_modified,fetch_latency_ms,retries,proxy_id,metadata\r\n"
)
Link = tuple[str, str, str]  # Where to, its text, and what stands around it.


class Outputs:
    def __init__(self, folder: Path, *, synced: bool = False) -> None:
        self._store = folder / "store"
        self._store.mkdir(parents=True, exist_ok=True)
        self._files = [
            (folder / name).open("a", newline="")
            for name in ("pages.csv", "edges.csv", "discoveries.jsonl")
        ]
        self._pages, self._edges = csv.writer(self._files[0]), csv.writer(self._files[1])
        self._files[0].write(PAGE_COLUMNS)
        self._edges.writerow(("from", "to", "text", "depth", "context"))
        self._synced = synced
        self._waiting = 0

    def keep(
        self,
        url: str,
        body: bytes,
        headers: dict[str, str],
        links: Sequence[Link],
        depth: int = 0,
        referrer: str = "",
        latency: float = 0.0,
    ) -> None:
        """A page that was answered with 200."""
        sha256 = hashlib.sha256(body).hexdigest()
        place = f"{sha256[:2]}/{sha256[2:4]}"
        folder = f"{self._store}/{place}"
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/{sha256}.html", "wb") as file:
            file.write(body)
        row = (int(time()), url, "page", depth, referrer, 200, headers["content-type"], "utf-8")
        row += (sha256, len(body), f"store/{place}/{sha256}.html", headers["etag"])
        milliseconds = round(latency * 1000, 3)
        row += (headers["last-modified"], milliseconds, 0, "", json.dumps({"links": len(links)}))
        self._pages.writerow(row)
        self._edges.writerows([(url, to, text, depth, around) for to, text, around in links])
        about = {"status_code": 200, "content_length": len(body), "latency_ms": milliseconds}
        told = {"url": url, "page_type": "page", "depth": depth, "referrer": referrer or None}
        self._files[2].write(json.dumps({**told, "metadata": about}) + "\n")
        self._waiting += 1
        if self._synced and self._waiting >= PAGES_PER_SYNC:
            self.sync()

    def sync(self) -> None:
        self._waiting = 0
        for file in self._files:
            file.flush()
        ctypes.CDLL(None).syncfs(self._files[0].fileno())

    def close(self) -> None:
        if self._synced:
            self.sync()
        for file in self._files:
            file.close()
