"""The host behind libvirt: one connection, one thread a call, and a time-out for each."""
