"""Scenarios and speedup curves, as files and in memory."""
