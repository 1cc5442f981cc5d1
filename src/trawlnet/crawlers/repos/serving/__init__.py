"""Events for WebSocket clients, in Jetstream's shape: from the archive, from the log, and live."""
