"""Ray's token: a cluster on this machine gets its own token, which ends with it.

Since 2.59 Ray creates a token for a cluster that a program starts, and saves it in
~/.ray/auth_token. `ray start --head` finds it there, and from then on requires it of every client.
For a cluster at an address, RAY_AUTH_MODE must say whether it requires a token: a command with a
token gets no messages from the workers of a cluster without one.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager

LOCAL = "local"
_MODE, _TOKEN = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"


@contextmanager
def authenticated(address: str, environ: MutableMapping[str, str]) -> Iterator[None]:
    """Set Ray's variables inside, and restore them afterwards. Variables that the user has set
    stay."""
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
