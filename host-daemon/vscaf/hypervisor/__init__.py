"""The interface of a host with domains, and its implementation through libvirt."""
