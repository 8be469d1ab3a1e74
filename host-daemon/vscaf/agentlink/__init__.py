"""The channels to the agents in the guests."""
