"""Where results go, durable when the call returns."""
