"""The web crawler: policy, robots.txt, pages and their links, and revisits."""
