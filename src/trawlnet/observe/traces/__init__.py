"""The way of single tasks as OpenTelemetry spans."""
