"""The manners of an XRPC server: JSON answers, refusals by name, checked parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import web

from trawlnet.atproto.syntax import is_did


class XrpcRefusal(Exception):
    """Ends a request with a named error."""

    def __init__(self, name: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.name = name
        self.message = message
        self.status = status

    def response(self) -> web.Response:
        return json_response({"error": self.name, "message": self.message}, self.status)


class BadParameter(XrpcRefusal):
    """A refusal before any account was looked at; it does not count against a rate limit."""

    def __init__(self, message: str) -> None:
        super().__init__("InvalidRequest", f"Error: {message}")


def json_response(value: Any, status: int = 200) -> web.Response:
    return web.Response(
        body=orjson.dumps(value),
        status=status,
        headers={"Content-Type": "application/json; charset=utf-8"},
    )


def did_parameter(query: Mapping[str, str], name: str = "did") -> str:
    did = query.get(name)
    if did is None:
        raise BadParameter(f'Params must have the property "{name}"')
    if not is_did(did):
        raise BadParameter(f"{name} must be a valid did")
    return did


def limit_parameter(query: Mapping[str, str], default: int, most: int) -> int:
    text = query.get("limit", str(default))
    # isdecimal also takes the digits of other scripts, which int understands as well.
    if not text.isdecimal() or len(text) > 9:
        raise BadParameter("limit must be an integer")
    limit = int(text)
    if limit < 1:
        raise BadParameter("limit can not be less than 1")
    if limit > most:
        raise BadParameter(f"limit can not be greater than {most}")
    return limit
