"""The registry on the web: an endpoint for programs, a page for people."""
