"""One run: the daemon's own loop over a simulated host and guests, in simulated time."""
