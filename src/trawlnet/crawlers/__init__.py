"""Each crawler is a config, a source, a handler and a choice of sink."""
