"""The User-Agent: a product, its version, and a contact."""

from __future__ import annotations

import re

from trawlnet import __version__

_CONTACT = re.compile(r"https?://[^\s()<>]+\.[^\s()<>]+|[^\s()<>@]+@[^\s()<>@]+\.[^\s()<>@]+")


def user_agent(contact: str, product: str = f"trawlnet/{__version__}") -> str:
    """`product (+contact)`. The contact is a web page or an e-mail address."""
    agent = f"{product} (+{contact.strip()})"
    require_contact(agent)
    return agent


def require_contact(agent: str) -> None:
    """Refuse an agent without a contact: operators of hosts must be able to reach the user."""
    if not (agent.isascii() and agent.isprintable()):
        raise ValueError(f"user agent {agent!r} has characters that cannot be sent")
    if _CONTACT.search(agent) is None:
        raise ValueError(
            f"user agent {agent!r} names no contact: "
            "add a web page or an e-mail address, such as (+https://example.org/crawler)"
        )
