"""The host through libvirt: each call has a connection, a thread and a time-out of its own."""
