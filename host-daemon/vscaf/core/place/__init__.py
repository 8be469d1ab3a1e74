"""Which CPUs each domain gets: in whole chunks, on few NUMA nodes, with few moves and no overlap."""
