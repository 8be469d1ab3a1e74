"""The control API: JSON over HTTP over a UNIX socket. `messages` has the requests, `peers` the access rules."""
