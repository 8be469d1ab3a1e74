"""Repairs domains after the daemon's end: the guard process, and the commands that read the daemon's journal."""
