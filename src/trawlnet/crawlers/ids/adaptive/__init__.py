"""The adaptive law: chooses the next ids, the rate, the concurrency, and the retries."""
