"""`python -m vscaf` is the `vscaf` command."""

from vscaf.cli.main import main

main(prog_name="vscaf")
