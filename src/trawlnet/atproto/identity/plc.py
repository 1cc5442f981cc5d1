"""PLC operations: naming, reading, and what one of them makes of a DID."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from trawlnet.atproto.cid import base32
from trawlnet.malformed import Malformed

Operation = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One operation as a directory's log or export tells it."""

    did: str
    cid: str
    operation: Operation
    created_at: str
    seq: int | None = None  # Only in the sequence form of the export.
    nullified: bool | None = None  # Only in the older form and in audit logs.


@dataclass(frozen=True, slots=True)
class PlcState:
    """What a DID stands for; nothing at all once it is tombstoned."""

    did: str
    rotation_keys: Sequence[str] = ()
    verification_methods: Mapping[str, str] | None = None
    also_known_as: Sequence[str] = ()
    services: Mapping[str, Mapping[str, str]] | None = None
    tombstoned: bool = False

    @property
    def pds(self) -> str | None:
        """The endpoint as its owner wrote it."""
        endpoint = (self.services or {}).get("atproto_pds", {}).get("endpoint")
        return endpoint if isinstance(endpoint, str) else None


def did_of_signed(genesis: bytes) -> str:
    """The DID that a signed first operation, in DAG-CBOR, brings into being."""
    return "did:plc:" + base32(sha256(genesis).digest())[:24]


def parse_log_line(row: Any) -> LogEntry:
    """One line of an export (either form) or one element of an audit log, after JSON."""
    if not isinstance(row, dict) or not isinstance(row.get("operation"), dict):
        raise Malformed("an export line without an operation")
    did, cid, created_at = row.get("did"), row.get("cid"), row.get("createdAt")
    seq, nullified = row.get("seq"), row.get("nullified")
    if not isinstance(did, str) or not isinstance(cid, str) or not isinstance(created_at, str):
        raise Malformed("an export line without did, cid or createdAt")
    if not (seq is None or type(seq) is int) or not (nullified is None or type(nullified) is bool):
        raise Malformed("an export line whose seq or nullified is of the wrong type")
    return LogEntry(did, cid, row["operation"], created_at, seq, nullified)


def state_after(did: str, operation: Operation) -> PlcState:
    """What one operation makes of a DID: each one replaces the whole state."""
    match operation.get("type"):
        case "plc_tombstone":
            return PlcState(did, tombstoned=True)
        case "create":
            signing = _text(operation, "signingKey")
            endpoint = _text(operation, "service")
            if not endpoint.startswith(("http://", "https://")):
                endpoint = "https://" + endpoint
            return PlcState(
                did,
                rotation_keys=(_text(operation, "recoveryKey"), signing),
                verification_methods={"atproto": signing},
                also_known_as=("at://" + _text(operation, "handle").removeprefix("at://"),),
                services={
                    "atproto_pds": {"type": "AtprotoPersonalDataServer", "endpoint": endpoint}
                },
            )
        case "plc_operation":
            return PlcState(
                did,
                rotation_keys=_texts(operation, "rotationKeys"),
                verification_methods=_mapping(operation, "verificationMethods"),
                also_known_as=_texts(operation, "alsoKnownAs"),
                services=_services(operation),
            )
        case other:
            raise Malformed(f"a PLC operation of type {str(other)[:80]!r}")


def _text(operation: Operation, name: str) -> str:
    value = operation.get(name)
    if not isinstance(value, str):
        raise Malformed(f"a PLC operation without {name}")
    return value


def _texts(operation: Operation, name: str) -> tuple[str, ...]:
    value = operation.get(name)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Malformed(f"a PLC operation whose {name} is not a list of strings")
    return tuple(value)


def _mapping(operation: Operation, name: str) -> dict[str, str]:
    value = operation.get(name)
    if not isinstance(value, dict):
        raise Malformed(f"a PLC operation whose {name} is not a map")
    return value


def _services(operation: Operation) -> dict[str, dict[str, str]]:
    services: dict[str, Any] = dict(_mapping(operation, "services"))
    if not all(isinstance(service, dict) for service in services.values()):
        raise Malformed("a PLC operation with a service that is not a map")
    return services
