"""An API of sequential ids as data: its presets, and what its answers mean."""
