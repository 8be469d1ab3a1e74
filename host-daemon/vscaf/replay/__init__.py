"""`vscaf replay`: recorded decisions, made again by the same code or by another policy."""
