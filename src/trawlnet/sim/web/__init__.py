"""A simulated web: hosts, pages, robots, sitemaps, traps, and a manifest of what is there."""

from trawlnet.sim.web.manifest import read_manifest
from trawlnet.sim.web.world import WebWorld, serve_web

__all__ = ["WebWorld", "read_manifest", "serve_web"]
