"""A simulated API of sequential ids: a model of its traffic, and a server that follows it."""

from trawlnet.sim.ids.manifest import read_manifest
from trawlnet.sim.ids.model import Cap, CounterLeap, IdState, SimEmbargo, TimeSpan, Traffic
from trawlnet.sim.ids.scenarios import scenario, scenario_names
from trawlnet.sim.ids.world import IdsWorld, serve_ids

__all__ = [
    "Cap",
    "CounterLeap",
    "IdState",
    "IdsWorld",
    "SimEmbargo",
    "TimeSpan",
    "Traffic",
    "read_manifest",
    "scenario",
    "scenario_names",
    "serve_ids",
]
