"""The policy that does nothing: domains run where the host's scheduler puts them."""

from vscaf_policies.state import Options, PoolState, ignoring_weights, refuse_unknown_options


@ignoring_weights
def unmanaged(pool: PoolState, options: Options) -> None:
    """Change nothing. Takes no option."""
    refuse_unknown_options("unmanaged", options)
