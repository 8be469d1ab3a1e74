"""The policy that is chosen: loaded, tried, and what it is shown of the pool."""
