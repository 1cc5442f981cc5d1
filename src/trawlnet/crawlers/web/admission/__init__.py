"""Decides which URLs may be requested: policy, robots.txt, caps, budget; and counts the others."""
