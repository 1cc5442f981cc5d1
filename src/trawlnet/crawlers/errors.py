"""Errors in the config or the environment of a crawler, which its user can fix."""

from __future__ import annotations

from trawlnet.hinted import Hinted


class NotReady(Hinted):
    """The config is well formed, but a crawl cannot start with it."""


class Unanswered(Hinted):
    """A server that everything else depends on does not answer."""


class SourceUnread(Unanswered):
    """No source of a crawl was read to its end; what was known before has been crawled."""


class PartlyRead(SourceUnread):
    """One of several sources was not read to its end."""
