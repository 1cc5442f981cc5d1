"""Ray's token: a cluster on this machine has one of its own, which ends with it.

Since 2.59 Ray gives a cluster that a program starts a token, and leaves it in ~/.ray/auth_token.
`ray start --head` finds it there, and from then on wants it of everybody. Whether a cluster that is
named wants one RAY_AUTH_MODE must say: a command that has a token does not hear from the workers of
a cluster that has none.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager

LOCAL = "local"
_MODE, _TOKEN = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"


@contextmanager
def authenticated(address: str, environ: MutableMapping[str, str]) -> Iterator[None]:
    """Inside, Ray is told what it should use; afterwards everything is as it was. What somebody has
    set stands."""
    before = {name: environ.get(name) for name in (_MODE, _TOKEN)}
    if address == LOCAL and environ.get(_MODE) is None:
        environ.setdefault(_TOKEN, secrets.token_hex(32))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                environ.pop(name, None)
            else:
                environ[name] = value
