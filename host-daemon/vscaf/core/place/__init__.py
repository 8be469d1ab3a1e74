"""Which CPUs each domain gets: the pool's chunks and NUMA nodes, few moves, no overlap."""
