"""The control API: JSON over HTTP over a UNIX socket; what may be asked is in `messages`, who may ask in `peers`."""
