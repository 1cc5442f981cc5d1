"""Removes secrets from texts and configs before they are shown.

The same rules hold for the config, logs, errors, status and pages. They hide too much rather than
too little: a name that sounds like a secret is one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "..."
_PLACEHOLDERS = ("USER:PASSWORD", "user:password")  # In our own hints.
_MOST = 16 * 1024  # Characters of a line that are searched; the rest is not shown.

_WORDS = (
    r"(?:passw(?:or)?d|passphrase|pwd|secret|token|webhook|authorization|cookie|credentials?"
    r"|signature|sig|(?:api|access|private|secret|account)[-_.]?key"
    r"|(?<![^\W_])(?:pass|auth))"  # Whole words: a bypass and an author are no secrets.
)
# Bounded at the start, so that the search takes linear time.
_SECRET_NAME = rf"[\w.%\[\]-]{{0,64}}?{_WORDS}s?\d{{0,3}}\]?"
_NAME = re.compile(_SECRET_NAME, re.IGNORECASE)

# The authority of a URL, up to its last @: passwords have been seen with an @ in them. Where the
# part behind the first colon is no port, it is a password, and may have a slash in it as well.
_USERINFO = re.compile(
    r"(?<=://)(?:[^\s/?#@:\"'<>]{0,512}:(?![0-9]*(?:[/?#\s]|$))[^\s\"'<>]{0,4096}"
    r"|[^\s/?#\"'<>]{0,4096})@"
)
# The same for servers whose addresses have no @ elsewhere: a password may begin like a port.
_SERVER_USERINFO = re.compile(
    r"(?<![\w+.-])(?P<is>(?:rediss?|amqps?|postgres(?:ql)?|clickhouses?|s3)://)"
    r"(?P<whole>[^\s\"'<>]{0,4096})@",
    re.IGNORECASE,
)
_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
# `?token=x`, `password='x y'` and the like, also with the name in quotes.
_ASSIGNED = re.compile(
    rf"(?<![\w.%\[\]-])(?P<name>{_SECRET_NAME})(?P<is>[\"']?\s?=\s?)(?!\$[({{])"
    rf"(?:{_QUOTED}|(?:(?:basic|bearer)\s)?[^\s&;#,\"'<>]+)",
    re.IGNORECASE,
)
# `?key=x`: in a query the key of an API, elsewhere the key of a task or of a config.
_QUERY_KEY = re.compile(r"(?P<name>[?&;]key)(?P<is>=)[^\s&;#,\"'<>]+", re.IGNORECASE)
# `"password": "x"`, in JSON and in what Python prints.
_QUOTED_PAIR = re.compile(
    rf"(?<![\w.%\[\]-])(?P<name>{_SECRET_NAME})(?P<is>[\"']?\s?:\s?)(?:{_QUOTED})", re.IGNORECASE
)
_HEADER = re.compile(
    r"(?P<name>\b(?:(?:proxy-)?authorization|(?:set-)?cookie|x-api-key|x-auth-token))"
    r"(?P<is>\s?:\s?)[^\r\n\"']+",
    re.IGNORECASE,
)


def redact(text: str) -> str:
    """A text without the secrets in its URLs, queries, headers and assignments."""
    if len(text) > _MOST:
        return "\n".join(redact(line[:_MOST]) for line in text.split("\n"))
    if "://" in text:
        text = _SERVER_USERINFO.sub(lambda found: found["is"] + _user_only(found["whole"]), text)
        text = _USERINFO.sub(lambda found: _user_only(found[0][:-1]), text)
    for pattern in (_HEADER, _QUOTED_PAIR, _ASSIGNED, _QUERY_KEY):
        text = pattern.sub(rf"\g<name>\g<is>{HIDDEN}", text)
    return text


def redacted(value: Any, name: str = "") -> Any:
    """A config value of any depth, redacted by this name."""
    if isinstance(value, Mapping):
        return {key: redacted(item, _under(name, str(key))) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(item, name) for item in value]
    if value is None or isinstance(value, bool) or not value:
        return value
    # A number that is a limit is no secret: `max_tokens: 1000`.
    if is_secret(name) and not (isinstance(value, int | float) and name.startswith("max_")):
        return HIDDEN
    return redact(value) if isinstance(value, str) else value


def is_secret(name: str) -> bool:
    return _NAME.fullmatch(name[-128:].rpartition(" ")[2]) is not None


def _under(name: str, key: str) -> str:
    """The name of a nested key: everything inside a secret is secret."""
    return name if is_secret(name) else key


def _user_only(whole: str) -> str:
    """Keep the user name, unless there is no password: then it may be a token."""
    if whole in _PLACEHOLDERS:
        return f"{whole}@"
    user, colon, _ = whole.partition(":")
    return f"{user}:{HIDDEN}@" if colon else f"{HIDDEN}@"
