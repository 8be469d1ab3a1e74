"""Allocation policies of vscaf, and the values that a policy is given and returns."""

from vscaf_policies.bounds import bounded_partition, competes, largest, smallest
from vscaf_policies.intpart import integer_partition
from vscaf_policies.registry import load_policy, policy_names
from vscaf_policies.state import (
    Answer,
    DomainState,
    Options,
    Policy,
    PolicyError,
    PoolState,
    SpeedupPoint,
    explained_by,
    exploring,
    ignoring_weights,
    reasons_for,
    refuse_unknown_options,
    timeless,
)

__all__ = [
    "Answer",
    "DomainState",
    "Options",
    "Policy",
    "PolicyError",
    "PoolState",
    "SpeedupPoint",
    "bounded_partition",
    "competes",
    "explained_by",
    "exploring",
    "ignoring_weights",
    "integer_partition",
    "largest",
    "load_policy",
    "policy_names",
    "reasons_for",
    "refuse_unknown_options",
    "smallest",
    "timeless",
]
