"""What happens to repositories, as events: their JSON, the log that keeps them, and its readers."""
