"""Asking for the document of a DID: at the PLC directory, or on the host that a did:web names."""

from __future__ import annotations

from urllib.parse import unquote

import orjson

from trawlnet.crawlers.metered import Getter
from trawlnet.crawlers.repos.identity import Identity
from trawlnet.crawlers.repos.listing import HostRules, pds_url
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.formats.diddoc import pds_endpoint, signing_key
from trawlnet.formats.malformed import Malformed
from trawlnet.net.answer import Limits, outcome_of
from trawlnet.net.lane import lane_of
from trawlnet.net.trouble import Trouble

_WEB = "did:web:"
_PLC = "did:plc:"
_DOCUMENT = Limits(total=30.0, wire=256 << 10, inflated=256 << 10)


class DocumentResolver:
    def __init__(self, http: Getter, plc: str, rules: HostRules) -> None:
        self._http = http
        self._plc = plc
        self._rules = rules

    def directory_of(self, did: str) -> str:
        if did.startswith(_PLC):
            return self._plc
        url = None
        if did.startswith(_WEB):
            # A colon would begin a path, which accounts do not have; a port is spelled %3A.
            url = pds_url(unquote(did.removeprefix(_WEB).replace(":", "/")), self._rules)
        if url is None:
            raise ValueError(f"no server has a document for {did}")
        return url

    async def resolve(self, did: str) -> Identity | Outcome:
        try:
            directory = self.directory_of(did)
        except ValueError as error:
            return Outcome(Reason.REFUSED, detail=str(error))
        path = "/.well-known/did.json" if did.startswith(_WEB) else f"/{did}"
        answer = await self._http.get(directory + path, lane=lane_of(directory), limits=_DOCUMENT)
        if isinstance(answer, Trouble) or answer.reason is not Reason.OK:
            return outcome_of(answer)
        return self._read(did, answer.body)

    def _read(self, did: str, body: bytes) -> Identity | Outcome:
        try:
            doc = orjson.loads(body)
        except ValueError:
            doc = None
        if not isinstance(doc, dict) or doc.get("id") != did:
            return Outcome(Reason.PARSE_ERROR, detail="not the DID's document")
        try:
            key = signing_key(doc).did_key
        except Malformed:
            key = ""
        return Identity(did, self._origin(pds_endpoint(doc) or ""), key)

    def _origin(self, endpoint: str) -> str:
        """Scheme and host of what an owner wrote; empty where that names no server."""
        scheme, slashes, rest = endpoint.partition("://")
        host = (rest if slashes else scheme).partition("/")[0]
        url = pds_url(host, self._rules)
        if url is None or (slashes and scheme not in ("http", "https")):
            return ""
        return url
