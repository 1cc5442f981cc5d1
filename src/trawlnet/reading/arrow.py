"""Rows as Arrow; needs pyarrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from trawlnet.loading import load

if TYPE_CHECKING:
    from pyarrow import RecordBatchReader

_ROWS = 10_000  # Rows of one batch.


def pyarrow() -> Any:
    try:
        return load("pyarrow")
    except ImportError as error:
        raise ImportError(
            "Arrow needs the package pyarrow, which is not installed: pip install 'trawlnet[arrow]'"
        ) from error


def reader_of(
    columns: Sequence[tuple[str, Any]], rows: Iterable[Sequence[Any]]
) -> RecordBatchReader:
    """Batches that are built while they are read, so that only one is in memory."""
    pa = pyarrow()
    schema = pa.schema(columns)
    reader: RecordBatchReader = pa.RecordBatchReader.from_batches(
        schema, _batches(pa, schema, iter(rows))
    )
    return reader


def _batches(pa: Any, schema: Any, rows: Iterator[Sequence[Any]]) -> Iterator[Any]:
    while chunk := list(islice(rows, _ROWS)):
        columns = zip(*chunk, strict=True)
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)
        ]
        yield pa.record_batch(arrays, schema=schema)
