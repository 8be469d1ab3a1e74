"""`vscaf plot`: the allocations that the daemon told, beside where the vCPU threads ran."""
