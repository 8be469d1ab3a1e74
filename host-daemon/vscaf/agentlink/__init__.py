"""The channel to the agents in the guests."""
