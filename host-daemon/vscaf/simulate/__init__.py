"""Tries policies on a simulated host: scenarios, guests with speedup curves, and the daemon's own loop."""
