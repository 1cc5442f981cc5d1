"""A simulated ATProto network: a directory, servers with real repositories, and a relay."""

from trawlnet.sim.atproto.world import AtprotoWorld, serve_atproto

__all__ = ["AtprotoWorld", "serve_atproto"]
