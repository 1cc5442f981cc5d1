"""Keeps up with an API that hands out sequential ids."""
