"""One shard as a process of its own: `python -m tests.support.fleet.role JOB.json SHARD`."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

from trawlnet.fleet.crawlers import run_job
from trawlnet.fleet.shard import ShardJob

if __name__ == "__main__":
    job = ShardJob(**json.loads(Path(sys.argv[1]).read_text()))
    asyncio.run(run_job(replace(job, shard=int(sys.argv[2]))))
