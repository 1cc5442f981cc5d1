"""An API of sequential ids as data: presets, and the interpretation of answers."""
