"""`trawlnet repos verify`: every byte of an archive, and with --proofs every repository."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from trawlnet.archive.census import Census, load_tombstones, take_census
from trawlnet.archive.proving.proofs import ProofVerdict, asked_elsewhere
from trawlnet.archive.reader import Damage, Place, find_segments
from trawlnet.archive.tally import open_all
from trawlnet.archive.verify import Proven, prove_folded, verify_segment
from trawlnet.atproto.identity.keys import PublicKey, parse_did_key
from trawlnet.cli.common.archive_location import reading, total_size
from trawlnet.cli.common.bar import progress_bar
from trawlnet.cli.common.errors import Exit, UsageTrouble
from trawlnet.cli.common.flags import Json
from trawlnet.cli.common.output import emit, say
from trawlnet.cli.common.verb import PLAIN, Verb
from trawlnet.cli.repos.archive import Where, damage_row
from trawlnet.cli.repos.archive_tables import size_shown
from trawlnet.loading import load
from trawlnet.malformed import Malformed

_AT_ONCE = 2000  # Repositories whose keys are looked up together.

Proofs = Annotated[
    bool,
    typer.Option(
        "--proofs",
        show_envvar=False,
        help="Also prove each repository: its CIDs, tree, commit and signature.",
    ),
]
Mirror = Annotated[
    Path | None,
    typer.Option(
        "-w",
        "--workspace",
        metavar="DIR",
        show_default=False,
        show_envvar=False,
        allow_from_autoenv=False,
        help="With --proofs: compare keys with the PLC mirror of this workspace.",
    ),
]
PlcUrl = Annotated[
    str,
    typer.Option(
        "--plc-url",
        metavar="URL",
        show_default=False,
        show_envvar=False,
        allow_from_autoenv=False,
        help="With --proofs: compare keys with the logs of this directory.",
    ),
]

_Counts = dict[str, int]
LookUp = Callable[[Sequence[str]], Mapping[str, Sequence[str]]]  # Keys by DID; none if unknown.


def verify(
    place: Where,
    proofs: Proofs = False,
    workspace: Mirror = None,
    plc_url: PlcUrl = "",
    json: Json = False,
) -> int:
    """Check every byte of an archive: checksums, compression, records, order, index.

    Damage is named as file@offset, on stdout; the exit code is then 1. With --proofs, so is
    each repository that differs from what its owner signed, and the record that differs.
    """
    if (workspace or plc_url) and not proofs:
        raise UsageTrouble("-w and --plc-url need --proofs", "add --proofs")
    names = ("segments", "unfinalised", "bytes", "blocks", "records", "torn", "damaged")
    total: _Counts = dict.fromkeys(names, 0)
    prover = _Prover(_look_up(workspace, plc_url), json) if proofs else None
    with reading(place), progress_bar("verifying", total_size(place)) as progress:
        census = take_census(open_all(find_segments(place), []), load_tombstones(place))
        for path in find_segments(place):
            tell = prover.take if prover else None
            verdict = verify_segment(path, progress, tell=tell, census=census)
            total["segments"] += 1
            total["unfinalised"] += not verdict.finalised
            total["damaged"] += len(verdict.damage) + verdict.untold
            for name in ("bytes", "blocks", "records", "torn"):
                total[name] += getattr(verdict, name)
            for damage in verdict.damage:
                emit(damage_row(damage)) if json else print(damage, flush=True)
            if verdict.untold:
                say(f"{path}: {verdict.untold:,} more damaged places, not listed")
            if verdict.sound and not verdict.finalised:
                say(f"{path}: unfinalised, {verdict.torn:,} bytes torn; a crawl continues in it")
        folded = prove_folded(census, prover.take) if prover else ()
        for damage in (*census.broken, *folded):
            total["damaged"] += 1
            emit(damage_row(damage)) if json else print(damage, flush=True)
        if prover:
            prover.judge()
    _sum_up(total, census, prover, json)
    return 1 if total["damaged"] or (prover and prover.unproven) else 0


def _deltas(count: int) -> str:
    return f", {count:,} deltas" if count else ""


def _sum_up(total: _Counts, census: Census, prover: _Prover | None, as_json: bool) -> None:
    for name in ("superseded", "tombstoned"):
        total[name] = sum(map(len, getattr(census, name).values()))
    total["deltas"] = census.changed.deltas
    if prover:
        total |= {"proven": prover.proven, "unproven": prover.unproven}
    if as_json:
        emit(total)
        return
    state = f"{total['damaged']:,} damaged places" if total["damaged"] else "sound"
    say(
        f"{total['segments']:,} segments, {size_shown(total['bytes'])}, "
        f"{total['blocks']:,} blocks ({total['superseded']:,} superseded, "
        f"{total['tombstoned']:,} tombstoned{_deltas(total['deltas'])}), "
        f"{total['records']:,} records: {state}"
    )
    if prover:
        say(f"{prover.proven:,} repositories proven, {prover.unproven:,} not; {prover.by_whom}")


class _Prover:
    """Collects what was proven until enough keys can be looked up together."""

    def __init__(self, look_up: LookUp | None, as_json: bool) -> None:
        self._look_up = look_up
        self._as_json = as_json
        self._waiting: list[Proven] = []
        self._unknown = 0
        self.proven = self.unproven = 0

    @property
    def by_whom(self) -> str:
        if self._look_up is None:
            return "their keys were taken from the archive: compare them with a PLC mirror by -w"
        others = f"; the keys of {self._unknown:,} were taken from the archive"
        return "their keys were compared" + (others if self._unknown else "")

    def take(self, proven: Proven) -> None:
        self._waiting.append(proven)
        if len(self._waiting) == _AT_ONCE:
            self.judge()

    def judge(self) -> None:
        waiting, self._waiting = self._waiting, []
        dids = sorted({one.verdict.did for one in waiting if one.verdict.did.startswith("did:plc")})
        known = self._look_up(dids) if self._look_up and dids else {}
        for path, offset, verdict in waiting:
            keys = _parsed(known.get(verdict.did, ()))
            if keys:
                verdict = asked_elsewhere(verdict, keys)
            self._unknown += not keys
            self._tell(path, offset, verdict)

    def _tell(self, path: Place, offset: int, verdict: ProofVerdict) -> None:
        self.proven += verdict.proven
        self.unproven += not verdict.proven
        if self._as_json:
            fields = ("did", "rev", "root", "proven", "reason")
            emit({name: getattr(verdict, name) for name in fields})
            return
        for where, what in verdict.misfits:
            place = f"{verdict.did} {where}".rstrip()
            print(Damage(path, offset, f"{place}: {what}"), flush=True)


def _parsed(keys: Sequence[str]) -> list[PublicKey]:
    found = []
    for key in keys:
        with suppress(Malformed):
            found.append(parse_did_key(key))
    return found


def _look_up(workspace: Path | None, plc_url: str) -> LookUp | None:
    if workspace is not None and plc_url:
        raise UsageTrouble("keys are compared with one of them", "leave out -w or --plc-url")
    # Most of what a command would load is for asking others, and a proof by itself asks nobody.
    if workspace is not None:
        of_mirror: LookUp = load("trawlnet.cli.repos.known_keys:of_mirror")(workspace)
        return of_mirror
    if plc_url:
        of_directory: LookUp = load("trawlnet.cli.repos.known_keys:of_directory")(plc_url)
        return of_directory
    return None


VERIFY = Verb(verify, "repos verify ./net/archive", (*PLAIN, Exit.UNREACHABLE), "repos")
