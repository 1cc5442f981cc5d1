"""Who we say we are to the hosts that are crawled."""

from __future__ import annotations

from trawlnet.crawlers.errors import NotReady
from trawlnet.net.agent import user_agent

_NOBODY = "nobody@private.invalid"  # In a private world there is nobody else to complain.
_HINT = "give an address or a web page: --contact you@example.org"


def agent_for(contact: str, *, allow_private: bool) -> str:
    """The User-Agent. Raises NotReady: without somebody to complain to nothing is sent."""
    contact = contact or (_NOBODY if allow_private else "")
    if not contact:
        raise NotReady("no contact is set, and hosts must be able to reach you", _HINT)
    try:
        return user_agent(contact)
    except ValueError as error:
        raise NotReady(str(error), _HINT) from error
