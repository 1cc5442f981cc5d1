"""The stream of a network's commits: from the bytes of a frame to a commit that is believed."""
