"""The chosen policy: how it is loaded and tried, and what it sees of the pool."""
