"""Loopback clients and servers, and what stands between them."""
