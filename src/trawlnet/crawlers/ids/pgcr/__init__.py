"""From a carnage report to a processed instance. Pure."""
