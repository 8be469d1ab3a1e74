"""The daemon: its life, its loop, its decisions, its status, and what operators ask of it."""
