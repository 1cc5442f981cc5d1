"""Compare a workspace with the servers that it was crawled from: run by hand, not by pytest.

    python tests/interop/reference_network.py MANIFEST WORKSPACE

MANIFEST describes a running network of reference servers: `accounts` with did, pds, status and
live records per collection. The workspace must have been crawled with --keep-cids. Every record
that listRecords shows must be in the archive with the same JSON, and nothing else; every account
that is not active must have its reason.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.parse
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

PROGRAM = [sys.executable, "-m", "trawlnet", "repos"]
REASONS = {"deactivated": "deactivated", "takendown": "takendown", "deleted": "not_found"}


def main() -> None:
    manifest = json.loads(Path(sys.argv[1]).read_text())
    workspace = Path(sys.argv[2])
    rows = told("failures", "-w", str(workspace), "--json")
    reasons = {row["key"]: row["reason"] for row in rows}
    wrong: list[str] = []
    checked: Counter[str] = Counter()
    for account in manifest["accounts"]:
        did, status = account["did"], account["status"]
        checked[status] += 1
        if status == "active":
            wrong += compare(did, account["pds"], account["records"], workspace, checked)
        elif not account["plcTombstoned"] and reasons.get(did) != REASONS.get(status, status):
            wrong.append(f"{did} is {status}, and on record as {reasons.get(did)}")
    for line in wrong:
        print(line)
    print(dict(checked), "wrong:", len(wrong))
    print("other reasons:", dict(Counter(reasons.values())))
    sys.exit(bool(wrong))


def told(*words: str) -> list[Any]:
    done = subprocess.run([*PROGRAM, *words], capture_output=True, encoding="utf-8", check=True)
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def compare(
    did: str, pds: str, counts: dict[str, int], workspace: Path, checked: Counter[str]
) -> list[str]:
    archived = {
        (row["collection"], row["rkey"]): row["value"]
        for row in told("cat", str(workspace / "archive"), "--did", did)
    }
    live = {key: value for name in counts for key, value in listed(pds, did, name)}
    checked["records"] += len(live)
    wrong = [f"{did} {key}: not archived" for key in live.keys() - archived.keys()]
    wrong += [f"{did} {key}: archived, not on the server" for key in archived.keys() - live.keys()]
    wrong += [
        f"{did} {key}: differs"
        for key in live.keys() & archived.keys()
        if normal(live[key]) != normal(archived[key])
    ]
    if len(live) != sum(counts.values()):
        wrong.append(f"{did}: the server lists {len(live)}, the manifest {sum(counts.values())}")
    return wrong


def listed(pds: str, did: str, collection: str) -> list[tuple[tuple[str, str], Any]]:
    found, cursor = [], ""
    while True:
        query = {"repo": did, "collection": collection, "limit": 100, "cursor": cursor}
        words = urllib.parse.urlencode({name: value for name, value in query.items() if value})
        url = f"{pds}/xrpc/com.atproto.repo.listRecords?{words}"
        with urllib.request.urlopen(url) as answer:
            page = json.load(answer)
        for record in page["records"]:
            found.append(((collection, record["uri"].rsplit("/", 1)[1]), record["value"]))
        cursor = page.get("cursor", "")
        if not cursor or not page["records"]:
            return found


def normal(value: Any) -> Any:
    """Base64 may be padded or not: both are the same bytes."""
    if isinstance(value, dict):
        if set(value) == {"$bytes"}:
            return {"$bytes": value["$bytes"].rstrip("=")}
        return {name: normal(item) for name, item in value.items()}
    if isinstance(value, list):
        return [normal(item) for item in value]
    return value


if __name__ == "__main__":
    main()
