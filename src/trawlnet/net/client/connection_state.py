"""The states of a connection, from one request to the next."""

from __future__ import annotations

from enum import Enum


class ConnectionState(Enum):
    READY = "nothing is under way: the next request may go out"
    HEAD = "a request is out, and the head of its response on its way"
    PARSED = "the body is read by the parser"
    COUNTED = "the body passes by the parser"
    FILLED = "the body passes by the parser, to where it is to stay"
    ENDED = "the last response is whole, and there will be no other"
    BROKEN = "the response will never be whole"
