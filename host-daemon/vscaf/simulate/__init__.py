"""Policies on a host that is not there: scenarios, guests with speedup curves, and the daemon's own loop on top."""
