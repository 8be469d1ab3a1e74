"""`vscaf explain`: why a domain has what it has, and what would change it."""
