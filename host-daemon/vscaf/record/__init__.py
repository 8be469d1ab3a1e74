"""Recordings of decisions: their lines, their files, and what the daemon does to write them."""
