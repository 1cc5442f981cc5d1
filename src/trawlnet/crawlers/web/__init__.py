"""Sites: policy, robots, pages and their links, and when to come back."""
