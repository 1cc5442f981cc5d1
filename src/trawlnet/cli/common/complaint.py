"""Prints an error on stderr: one line that says what is wrong, and one that says what to type."""

from __future__ import annotations

import json
import sys

from trawlnet.net.redact import redact


def complain(message: str, hint: str, *, as_json: bool) -> None:
    message, hint = redact(message), redact(hint)
    if as_json:
        line = json.dumps({"error": message, "hint": hint})
    else:
        line = f"error: {message}" + (f"\nhint: {hint}" if hint else "")
    print(line, file=sys.stderr)
