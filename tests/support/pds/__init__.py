"""Scans of simulated PDSes, and registries with a past."""
