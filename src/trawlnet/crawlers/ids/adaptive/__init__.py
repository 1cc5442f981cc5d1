"""The adaptive law: how far, how fast, how many at once, and what to ask again."""
