"""Which request headers a config may set."""

from __future__ import annotations

import re

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]{0,998}[\x21-\x7e])?|")
# Ours to say, or secrets, which would go to every host that a link leads to.
_OUR_HEADERS = frozenset(
    (
        *("accept", "accept-encoding", "connection", "content-length", "expect", "host"),
        *("if-modified-since", "if-none-match", "keep-alive", "range", "te", "trailer"),
        *("transfer-encoding", "upgrade", "authorization", "cookie", "proxy-authorization"),
    )
)


def header_trouble(name: str, text: str) -> str:
    """Why a header may not be set; empty if it may."""
    if not _HEADER_NAME.fullmatch(name):
        return "is not the name of a header"
    if name.lower() == "user-agent":
        return "is the key robots.user_agent"
    if name.lower() in _OUR_HEADERS:
        return "is not for the config to set"
    return "" if _HEADER_VALUE.fullmatch(text) else "needs a value of printable ASCII"
