"""vscaf: partitions a host's CPUs among virtual machines by measured speedup."""

__version__ = "0.1.0"
