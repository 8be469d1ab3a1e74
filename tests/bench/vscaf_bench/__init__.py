"""Benchmarks: each prints a table and writes build/bench/NAME.json in the same form (see report.py)."""
