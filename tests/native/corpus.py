"""Writes the fuzzers' seeds, sound and odd: repositories, also the fixtures, and records."""

from __future__ import annotations

import random
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT / "tests"))

from made_records import LIKE, ODD_JSON, POST, as_entries  # noqa: E402 The path comes first.
from made_repos import ODD_RECORDS, make_car, make_record  # noqa: E402 The path comes first.

FIXTURES = ROOT.parent / "shared" / "fixtures" / "car"
LARGEST_SEED = 20_000  # Bytes: small seeds make more executions.


def main(folder: Path) -> None:
    write_repositories(folder / "extract")
    write_records(folder / "records")


def write_records(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, body in enumerate(ODD_JSON):
        (folder / f"odd-{number:03}").write_bytes(body)
    (folder / "entries").write_bytes(as_entries([POST, LIKE, b"{}"]))
    (folder / "many").write_bytes(as_entries(body for body in ODD_JSON if len(body) < 50))


def write_repositories(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(7)
    for size in (0, 1, 3, 8, 30, 60):
        names = [f"app.bsky.feed.{rng.choice(('post', 'like'))}/3k{n:011d}" for n in range(size)]
        car = make_car(
            {name: make_record(rng) for name in names}, shuffle=size, duplicates=size % 3
        )
        (folder / f"made-{size}.car").write_bytes(car)
    odd = sorted(ODD_RECORDS)
    for first in range(0, len(odd), 6):
        car = make_car({name: ODD_RECORDS[name] for name in odd[first : first + 6]})
        (folder / f"odd-{first}.car").write_bytes(car)
    for path in sorted(FIXTURES.glob("*.car")):
        if path.stat().st_size <= LARGEST_SEED:
            (folder / path.name).write_bytes(path.read_bytes())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
