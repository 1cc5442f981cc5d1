"""Which URLs may be asked for: policy, robots.txt, caps, budget, and what was left out."""
