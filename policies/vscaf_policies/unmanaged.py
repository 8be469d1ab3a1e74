"""The policy that does nothing: domains run where the host's scheduler puts them."""

from vscaf_policies.state import Options, PoolState, refuse_unknown_options


def unmanaged(pool: PoolState, options: Options) -> None:
    """Change nothing. Takes no option."""
    refuse_unknown_options("unmanaged", options)
