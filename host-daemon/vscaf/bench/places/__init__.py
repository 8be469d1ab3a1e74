"""Where `vscaf bench` runs workloads: guests of a lab, the user's own guests, or this machine without guests."""
