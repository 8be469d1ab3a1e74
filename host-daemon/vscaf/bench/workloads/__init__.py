"""What `vscaf bench` runs: the shipped workloads, the user's NPB programs, and commands."""
