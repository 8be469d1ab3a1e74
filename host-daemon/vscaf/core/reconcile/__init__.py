"""The reconciler: the next steps from the observed state of domains to their goals."""
