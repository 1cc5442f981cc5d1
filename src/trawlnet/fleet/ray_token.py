"""Ray's token: one of its own for a cluster on this machine, and the one that is here for others.

Since 2.59 Ray gives a cluster that a program starts a token, and leaves it in ~/.ray/auth_token.
`ray start --head` finds it there, and from then on wants it of everybody; but a program that names
the cluster's address does not send it unless RAY_AUTH_MODE says so.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path

LOCAL = "local"
_MODE, _TOKEN, _PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"


@contextmanager
def authenticated(
    address: str, environ: MutableMapping[str, str], home: Path | None = None
) -> Iterator[None]:
    """Inside, Ray is told what it should use; afterwards everything is as it was. What somebody has
    set stands."""
    before = {name: environ.get(name) for name in (_MODE, _TOKEN)}
    if environ.get(_MODE) is None:
        if address == LOCAL:
            environ.setdefault(_TOKEN, secrets.token_hex(32))
        elif _has_token(environ, home or Path.home()):
            environ[_MODE] = "token"  # A cluster without one does not mind.
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                environ.pop(name, None)
            else:
                environ[name] = value


def _has_token(environ: MutableMapping[str, str], home: Path) -> bool:
    return bool(environ.get(_TOKEN) or environ.get(_PATH)) or (home / ".ray/auth_token").is_file()
