"""Alerts to a webhook: the rules that raise them, and how they are sent."""
