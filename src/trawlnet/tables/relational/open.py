"""Which relational database a path or an address means."""

from __future__ import annotations

from pathlib import Path

from trawlnet.loading import load
from trawlnet.tables.errors import TablesError
from trawlnet.tables.relational.database import Relational, refuse_newer
from trawlnet.tables.relational.sqlite import open_sqlite


async def open_relational(where: Path | str, *, readonly: bool = False) -> Relational:
    """A path opens SQLite, a URL `postgresql://…` that server. Raises TablesError, also for tables
    of a newer version. A file that is only read must be there."""
    db = await _opened(where, readonly)
    try:
        await refuse_newer(db)
    except BaseException:
        await db.close()
        raise
    return db


async def _opened(where: Path | str, readonly: bool) -> Relational:
    scheme = _scheme(where)
    if scheme in ("postgresql", "postgres"):
        open_postgres = load("trawlnet.tables.relational.postgres:open_postgres")  # Slow.
        server: Relational = await open_postgres(str(where))
        return server
    if scheme:
        raise TablesError(
            f"there is no database for {scheme}:// addresses",
            "give the path of a file, or postgresql://user:password@host/name",
        )
    return await open_sqlite(Path(where), readonly=readonly)


def is_there(where: Path | str) -> bool:
    """Of a file. Whether a server is, one knows by asking it."""
    return bool(_scheme(where)) or Path(where).exists()


def _scheme(where: Path | str) -> str:
    """Empty for a path."""
    return where.partition("://")[0] if isinstance(where, str) and "://" in where else ""
