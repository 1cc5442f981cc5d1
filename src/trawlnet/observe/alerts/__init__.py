"""Alerts to a webhook: what is worth one, and how it is sent."""
