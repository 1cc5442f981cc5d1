"""`trawlnet repos car`: a repository of an archive as a CAR again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from trawlnet.archive.lookup import look_up
from trawlnet.archive.proving.car import NotWhole, repo_car
from trawlnet.archive.proving.proofs import Disproof
from trawlnet.cli.common.archive_location import place_shown, reading
from trawlnet.cli.common.errors import CliError, Exit
from trawlnet.cli.common.output import say
from trawlnet.cli.common.verb import PLAIN, Verb
from trawlnet.cli.repos.archive import Did, Where, refuse_if_gone
from trawlnet.storage.files import disk_errors, replace_file

Output = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        show_default=False,
        help="Write the CAR to this file [stdout].",
    ),
]


def car(place: Where, did: Did, output: Output = None) -> int:
    """Write one repository as the CAR that its server would send.

    Its root is the signed commit; every block is rebuilt from the records.
    """
    with reading(place):
        found = look_up(place, did)
        for damage in found.damage:
            say(str(damage))
        if found.block is None or found.segment is None:
            raise CliError(
                f"{did} is not in {place_shown(place)}", "list its contents: trawlnet repos tally"
            )
        refuse_if_gone(found, did)
        try:
            with found.segment.open() as fd:
                data = repo_car(fd, found.block)
        except Disproof as disproof:
            where, what = disproof.misfits[0]
            raise CliError(
                f"{did} {where}".rstrip() + f": {what}", "see all: trawlnet repos verify --proofs"
            ) from None
        except NotWhole as error:
            raise CliError(f"{did}: {error}", "crawl it again without --collections") from None
    if output is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        with disk_errors(f"writing {output}"):
            replace_file(output, data)
        say(f"{output}: {len(data):,} bytes")
    return 0


CAR = Verb(
    car,
    "repos car ./net/archive --did did:plc:ewvi7nxzyoun6zhxrhs64oiz -o repo.car",
    (*PLAIN, Exit.UNREACHABLE),
    "repos",
)
