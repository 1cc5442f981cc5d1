"""Prometheus series: the table of all series, the code that fills them, and the exporter."""
