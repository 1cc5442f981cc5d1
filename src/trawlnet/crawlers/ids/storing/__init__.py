"""From the queue to the tables: the workers of `ids store`, and how far they are behind."""
