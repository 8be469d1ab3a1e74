"""`vscaf prepare`: makes a libvirt domain partitionable."""
