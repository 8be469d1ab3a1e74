"""`python -m vscaf` is the `vscaf` command."""

from vscaf.cli import main

main()
