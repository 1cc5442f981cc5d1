"""An S3-compatible object store: whole objects in, ranges of them out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from trawlnet.hinted import Hinted
from trawlnet.loading import load

T = TypeVar("T")

SCHEME: Final = "s3://"
_RETRIES: Final = 8
_RETRY_SECONDS: Final = 60.0  # In all, which is enough for the restart of a server.
_ANSWER_SECONDS: Final = 60.0
_CHUNK: Final = 8 << 20  # Bytes of one request of a multipart upload; S3 requires 5 MB.
_SECRETS: Final = ("access_key_id", "secret_access_key", "session_token")
_PLAIN: Final = ("region", "default_region", "endpoint", "endpoint_url")


class ObjectsError(Hinted):
    """The object store refused or failed a request; confirmed writes are not lost."""


def s3_options(environ: Mapping[str, str]) -> dict[str, str]:
    """The options of S3 from the usual AWS variables; `<NAME>_FILE` names a file with the value."""
    found: dict[str, str] = {}
    for name in (*_SECRETS, *_PLAIN):
        variable = f"AWS_{name.upper()}"
        if value := environ.get(variable):
            found[name] = value
        elif path := environ.get(f"{variable}_FILE"):
            found[name] = Path(path).read_text("utf-8").strip()
    endpoint = found.pop("endpoint_url", found.pop("endpoint", ""))
    region = found.pop("region", found.pop("default_region", ""))
    found.pop("endpoint", None)
    found.pop("default_region", None)
    return found | ({"endpoint": endpoint} if endpoint else {}) | {"region": region or "us-east-1"}


class S3Objects:
    """Blocking; calls from several threads do not wait for each other."""

    def __init__(
        self, url: str, options: Mapping[str, str], patience: float = _RETRY_SECONDS
    ) -> None:
        """`url` is s3://BUCKET/PREFIX; options as `s3_options` finds them."""
        bucket, _, prefix = url.removeprefix(SCHEME).strip("/").partition("/")
        self.url = f"{SCHEME}{bucket}/{prefix}".rstrip("/")
        if not url.startswith(SCHEME) or not bucket:
            raise ObjectsError(f"{url!r} names no bucket", "write it like s3://bucket/folder")
        self._api, self._store = _connected(bucket, prefix, options, patience)

    def put(self, name: str, data: bytes | Iterable[bytes]) -> None:
        """Durable when this returns; readers never see a part of it."""
        if isinstance(data, bytes):
            self._do(lambda: self._api.put(self._store, name, data, chunk_size=_CHUNK), name)
            return
        writer = self._api.open_writer(self._store, name, buffer_size=_CHUNK)
        # Not as a context manager: that would complete the object even after an error.
        for piece in data:
            self._do(lambda piece=piece: writer.write(piece), name)  # type: ignore[misc]
        self._do(writer.close, name)

    def get(self, name: str) -> bytes:
        return bytes(self._do(lambda: self._api.get(self._store, name).bytes(), name))

    def read(self, name: str, size: int, offset: int) -> bytes:
        """`size` bytes from `offset` on; the object must be long enough."""
        if size <= 0:
            return b""
        read = self._api.get_range
        return bytes(self._do(lambda: read(self._store, name, start=offset, length=size), name))

    def stat(self, name: str) -> tuple[int, str]:
        """The size of the object, and a tag that changes when it is replaced."""
        meta = self._do(lambda: self._api.head(self._store, name), name)
        return int(meta["size"]), str(meta["e_tag"] or meta["last_modified"])

    def sizes(self, folder: str) -> dict[str, int]:
        """The objects directly in a folder, by name; an empty name is the top folder."""
        return dict(self._do(lambda: list(self._listed(folder)), folder))

    def delete(self, names: Iterable[str]) -> None:
        """Delete these objects; missing ones are ignored."""
        for name in names:
            try:
                self._do(lambda name=name: self._api.delete(self._store, name), name)  # type: ignore[misc]
            except FileNotFoundError:
                continue

    def _listed(self, folder: str) -> Iterator[tuple[str, int]]:
        found = self._api.list_with_delimiter(self._store, folder or None)
        for meta in found["objects"]:
            yield str(meta["path"]).rpartition("/")[2], int(meta["size"])

    def _do(self, call: Callable[[], T], name: str) -> T:
        with _in_words(f"{self.url}/{name}"):
            return call()


def _connected(
    bucket: str, prefix: str, options: Mapping[str, str], patience: float
) -> tuple[Any, Any]:
    try:
        obstore, s3_store = load("obstore"), load("obstore.store:S3Store")
    except ImportError as error:
        raise ObjectsError(
            "an s3:// archive needs the S3 client, which is not installed",
            "pip install 'trawlnet[s3]'",
        ) from error
    plain = options.get("endpoint", "").startswith("http://")
    store = s3_store(
        bucket,
        prefix=prefix or None,
        config=dict(options),
        client_options={"allow_http": plain, "timeout": timedelta(seconds=_ANSWER_SECONDS)},
        retry_config={
            "max_retries": _RETRIES,
            "retry_timeout": timedelta(seconds=patience),
            "backoff": {
                "init_backoff": timedelta(seconds=0.2),
                "max_backoff": timedelta(seconds=5),
                "base": 2,
            },
        },
    )
    return obstore, store


@contextmanager
def _in_words(what: str) -> Iterator[None]:
    refusals = load("obstore.exceptions")
    try:
        yield
    except (refusals.BaseError, OSError) as error:
        if "NoSuchBucket" in str(error):
            bucket = SCHEME + what.removeprefix(SCHEME).partition("/")[0]
            hint = f"create it: aws s3 mb {bucket}; or name another"
            raise ObjectsError(f"{what}: there is no such bucket", hint) from None
        if isinstance(error, refusals.PermissionDeniedError | refusals.UnauthenticatedError):
            hint = (
                "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; they need ListBucket, "
                "GetObject, PutObject and DeleteObject there"
            )
            raise ObjectsError(f"{what}: the object store forbids it", hint) from None
        if isinstance(error, FileNotFoundError):
            raise FileNotFoundError(f"there is no {what}") from None
        # The library's message has many lines, with headers.
        line = str(error).partition("\n")[0][:300]
        hint = "check the address and the keys (AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, ...)"
        raise ObjectsError(f"{what}: {line}", hint) from None
