"""Benchmarks: each prints a table and writes build/bench/NAME.json in the one form that DESIGN section 9 describes."""
