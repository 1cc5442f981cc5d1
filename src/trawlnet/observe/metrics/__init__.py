"""Prometheus series: one table of all of them, what fills them, and the server that shows them."""
