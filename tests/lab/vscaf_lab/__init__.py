"""Chaos, separation and further means of the tests with real guests."""
