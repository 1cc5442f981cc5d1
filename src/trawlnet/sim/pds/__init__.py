"""Many small PDSes whose repos can be changed at will: what a scanner has to live with."""

from trawlnet.sim.pds.model import PdsLie, SimPds, SimRepo
from trawlnet.sim.pds.world import PdsWorld, serve_pdses

__all__ = ["PdsLie", "PdsWorld", "SimPds", "SimRepo", "serve_pdses"]
