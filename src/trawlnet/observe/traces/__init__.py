"""Traces single tasks as OpenTelemetry spans."""
