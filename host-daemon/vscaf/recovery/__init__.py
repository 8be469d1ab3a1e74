"""What puts domains right when the daemon is gone: the guard beside it, and the commands that read its journal."""
