"""`vscaf bench`: what vscaf is worth on this machine."""
