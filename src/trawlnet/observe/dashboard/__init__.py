"""The dashboard: a page about the crawls of a workspace, served by a process of its own."""
