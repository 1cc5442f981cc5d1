"""Operations as owners sign them."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any

from trawlnet.atproto.dagcbor import encode
from trawlnet.atproto.identity.keys import Signer
from trawlnet.atproto.identity.plc import Operation
from trawlnet.atproto.identity.plc_log import without_sig


def sign_operation(operation: Operation, key: Signer) -> dict[str, Any]:
    signature = urlsafe_b64encode(key.sign(encode(without_sig(operation)))).rstrip(b"=")
    return {**operation, "sig": signature.decode("ascii")}
