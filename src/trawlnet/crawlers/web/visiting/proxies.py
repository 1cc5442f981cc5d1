"""Which proxy a host is asked through, if any."""

from __future__ import annotations

from collections.abc import Mapping

from trawlnet.crawlers.errors import NotReady
from trawlnet.net.redact import redact
from trawlnet.webpage.url import split

_DEFAULT_PORT = 80


class Proxies:
    def __init__(self, default: str | None, hosts: Mapping[str, str]) -> None:
        self._default = _checked(default) if default else ""
        self._hosts = {host.lower(): _checked(proxy) for host, proxy in hosts.items()}

    def url_for(self, host: str) -> str | None:
        return self._hosts.get(host, self._default) or None

    def name_for(self, url: str) -> str:
        """Of the proxy, as it stands in the pages CSV: without what may be secret."""
        if not self._hosts and not self._default:
            return ""
        proxy = self.url_for(split(url).host)
        return proxy.rpartition("@")[2].removeprefix("http://") if proxy else ""


def _checked(proxy: str) -> str:
    host, port = _place(proxy)
    if not proxy.startswith("http://") or not host or port < 0:
        raise NotReady(
            f"proxy {redact(proxy)!r} is refused", "write it like http://proxy.example:3128"
        )
    return proxy.rstrip("/")


def _place(proxy: str) -> tuple[str, int]:
    authority = proxy.partition("://")[2].partition("/")[0].rpartition("@")[2]
    host, _, port = authority.partition(":")
    return host, int(port) if port.isdigit() else (-1 if port else _DEFAULT_PORT)
