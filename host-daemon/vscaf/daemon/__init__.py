"""The daemon: its start and end, its loop, its decisions, its status, and the requests of operators."""
