"""The `vscaf` command."""
