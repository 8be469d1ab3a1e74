"""What the daemon asks of a host (interface), and what answers it (libvirt)."""
