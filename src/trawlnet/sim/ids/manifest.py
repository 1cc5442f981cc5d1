"""The manifest of a simulated id API: enough to say which ids exist at any time.

One JSON object: `base_url`; `began` (Unix seconds), `age` and `speed`, so that the world's time is
`age + (now - began) * speed`; `traffic`, all parameters of the model, from which `read_manifest`
makes the model again; `first_id`; `head`, the newest id at the start; `gaps`, rows `{start, end}`
(end exclusive) that are skipped for ever; `holes`, every id below `listed_to` that is never
published. An id from `first_id` on exists if it is in no gap and no hole; it is served some time
after the counter has reached it, and `Traffic.visible_at` says when.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trawlnet.sim.ids.model import Cap, CounterLeap, SimEmbargo, TimeSpan, Traffic

_LISTED_AHEAD = 3600.0  # World seconds after the start for which holes are listed ...
_LISTED_MOST = 500_000  # ... but no more ids than this.


def write_manifest(traffic: Traffic, path: Path, extra: Mapping[str, Any]) -> None:
    horizon = traffic.head(extra["age"] + _LISTED_AHEAD) + 1
    listed_to = min(horizon, traffic.first_id + _LISTED_MOST)
    gaps = traffic.gap_ranges()
    content = {
        **extra,
        "first_id": traffic.first_id,
        "head": traffic.head(extra["age"]),
        "gaps": [{"start": start, "end": end} for start, end in gaps],
        "listed_to": listed_to,
        "holes": [
            i
            for i in range(traffic.first_id, listed_to)
            if traffic.is_hole(i) and not any(start <= i < end for start, end in gaps)
        ],
        "traffic": asdict(traffic),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(content), encoding="utf-8")
    partial.replace(path)


def read_manifest(path: Path) -> tuple[dict[str, Any], Traffic]:
    """The manifest as it stands, and the model that it describes."""
    content = json.loads(path.read_text(encoding="utf-8"))
    plain = dict(content["traffic"])
    plain["gaps"] = tuple(CounterLeap(**row) for row in plain["gaps"])
    plain["pauses"] = tuple(TimeSpan(**row) for row in plain["pauses"])
    plain["outages"] = tuple(TimeSpan(**row) for row in plain["outages"])
    plain["stalls"] = tuple(TimeSpan(**row) for row in plain["stalls"])
    plain["caps"] = tuple(Cap(TimeSpan(**c["span"]), c["per_second"]) for c in plain["caps"])
    embargoes = plain["embargoes"]
    plain["embargoes"] = tuple(SimEmbargo(TimeSpan(**e["span"]), e["opens"]) for e in embargoes)
    return content, Traffic(**plain)
