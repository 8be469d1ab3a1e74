"""Benchmarks: each prints a table and writes build/bench/NAME.json in one form: see report.py."""
