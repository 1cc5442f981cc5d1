"""Errors in the config or the environment of a crawler, which its user can fix."""

from __future__ import annotations

from trawlnet.hinted import Hinted


class NotReady(Hinted):
    """The config is well formed, but a crawl cannot start with it."""


class Unanswered(Hinted):
    """A server that everything else depends on does not answer."""
