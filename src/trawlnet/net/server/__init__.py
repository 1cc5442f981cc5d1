"""Servers of our own: bounded in what a visitor may cost, over HTTP and over WebSockets."""
