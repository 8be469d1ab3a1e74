"""Which vCPU runs where within a domain's partition (DESIGN section 7)."""

from collections.abc import Iterable, Mapping, Sequence


def vcpu_pins(
    partition: frozenset[int], vcpus: Iterable[int], online: Sequence[int] | None, *, cooperating: bool
) -> Mapping[int, frozenset[int]]:
    """Pins of the *vcpus* (by number) of a domain that owns *partition* (pCPU numbers, not empty).

    A cooperating domain has no more CPUs *online* than pCPUs: each online vCPU gets a pCPU of its own, the others,
    which sleep, the whole partition. Any other domain is contained: all its vCPUs float over it.
    """
    if not partition:
        raise ValueError("a partition to pin to has at least one pCPU")
    pins = dict.fromkeys(vcpus, partition)
    awake = sorted(set(online or ()) & pins.keys())
    if cooperating and online is not None and 0 < len(awake) <= len(partition):
        for vcpu, cpu in zip(awake, sorted(partition), strict=False):
            pins[vcpu] = frozenset({cpu})
    return pins
