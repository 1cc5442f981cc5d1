"""Running a crawl from a command: its parts, signals, what is shown, how it ended."""
