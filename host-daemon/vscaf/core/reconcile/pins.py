"""Which vCPU runs where in a domain's partition: vCPU siblings on pCPU siblings, vNUMA cells on host nodes, and as few
changes as possible."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from vscaf.values import GuestTopology, HostCpus

MOST_TRIES = 2000
"""The most steps of the search for the cells' nodes: enough for the best answer with up to about five cells. With more
cells the best answer so far is used."""

Core = tuple[int, int]  # the core's NUMA node and lowest pCPU: cores are used in this order


@dataclass(frozen=True, slots=True, eq=False)
class HostLayout:
    """The core of each pCPU of the host. A pCPU that is missing is a core of its own on node 0."""

    core_of: Mapping[int, Core] = field(default_factory=dict)

    def core(self, cpu: int) -> Core:
        """The core of *cpu*."""
        return self.core_of.get(cpu, (0, cpu))


UNKNOWN = HostLayout()


def host_layout(cpus: HostCpus) -> HostLayout:
    """The layout of these pCPUs. They may be numbered in any way."""
    lowest = {cpu: min(core) for core in cpus.cores for cpu in core}
    return HostLayout({cpu: (cpus.node_of.get(cpu, 0), lowest.get(cpu, cpu)) for cpu in cpus.online})


def guest_numbering(plugged: Iterable[int], enabled_order: Mapping[int, int]) -> tuple[int, ...]:
    """The plugged vCPUs in the order in which Linux in the guest numbers them: the i-th is its CPU i.

    Linux first numbers the vCPUs that are plugged at boot, by their numbers, and then later ones in the order of their
    plug. libvirt reports the order in which vCPUs were enabled if that was one by one. Otherwise, and for vCPUs that
    vscaf has plugged since, the lowest number came first.
    """
    return tuple(sorted(plugged, key=lambda vcpu: (enabled_order.get(vcpu, float("inf")), vcpu)))


def vcpu_pins(
    partition: frozenset[int],
    vcpus: Iterable[int],
    online: Sequence[int] | None,
    *,
    cooperating: bool,
    guest: GuestTopology | None = None,
    layout: HostLayout = UNKNOWN,
    before: Mapping[int, int] = {},
) -> Mapping[int, frozenset[int]]:
    """Pins of the *vcpus* (by number) of a domain that owns *partition* (pCPU numbers). ValueError if that is empty.

    A cooperating domain has at most as many CPUs *online* as pCPUs. Each online vCPU gets a pCPU of its own (see
    `matched`). The other vCPUs, which are asleep, get the whole partition. Any other domain is contained: all its vCPUs
    float over the partition.
    """
    if not partition:
        raise ValueError("the partition to pin to is empty: give at least one pCPU")
    pins = dict.fromkeys(vcpus, partition)
    awake = sorted(set(online or ()) & pins.keys())
    if cooperating and online is not None and 0 < len(awake) <= len(partition):
        pins.update({vcpu: frozenset({cpu}) for vcpu, cpu in matched(partition, awake, guest, layout, before).items()})
    return pins


def pinned_alone(pins: Mapping[int, frozenset[int]]) -> dict[int, int]:
    """The pCPU of each vCPU that is pinned to only one."""
    return {vcpu: next(iter(cpus)) for vcpu, cpus in pins.items() if len(cpus) == 1}


def matched(
    partition: frozenset[int],
    awake: Sequence[int],
    guest: GuestTopology | None,
    layout: HostLayout,
    before: Mapping[int, int],
) -> dict[int, int]:
    """A pCPU of its own in *partition* for each vCPU of *awake*, of which there are at most as many as pCPUs.

    guest None: no topology is known. The goals, in this order (see `worth`):
    1. The vCPUs of a cell are on one host node: one of its memory's nodes if these are known.
    2. vCPUs that are siblings in the guest are on sibling pCPUs.
    3. vCPUs that are not siblings are not on sibling pCPUs.
    4. vCPUs stay where they were *before*. If the pins before are as good as any, nothing changes.

    The first goal is reached exactly up to MOST_TRIES. The second is reached, as far as is known, if there are no
    cells. Within a node it is reached if the node has a core for each guest core.
    """
    stays = tuple((vcpu, before[vcpu]) for vcpu in awake if before.get(vcpu) in partition)
    return dict(_matched(partition, tuple(awake), guest, layout, stays))


@lru_cache(maxsize=1024)  # called with the same arguments at each step until a domain has reached its goal
def _matched(
    partition: frozenset[int],
    awake: tuple[int, ...],
    guest: GuestTopology | None,
    layout: HostLayout,
    before: tuple[tuple[int, int], ...],
) -> Mapping[int, int]:
    pins = dict(before)
    if len(set(pins.values())) < len(awake):
        pins = _Match(partition, awake, guest, layout, pins).found()
    # A match that is found from other pins may be better. So it is repeated: an answer is then its own answer.
    while worth(better := _Match(partition, awake, guest, layout, pins).found(), guest, layout) > worth(
        pins, guest, layout
    ):
        pins = better
    return pins


def worth(pins: Mapping[int, int], guest: GuestTopology | None, layout: HostLayout) -> tuple[int, int, int]:
    """How good a match is; larger is better. The number of vCPUs on the node of their cell; then the number of pairs of
    siblings that share a core; then, negative, the number of other pairs that share a core."""
    local = 0
    for vcpus, nodes in guest.cells if guest is not None else ():
        vcpu_nodes = [layout.core(pins[vcpu])[0] for vcpu in vcpus if vcpu in pins]
        local += max((vcpu_nodes.count(node) for node in set(vcpu_nodes) if not nodes or node in nodes), default=0)
    together = apart = 0
    by_core: dict[Core, list[int]] = {}
    for vcpu, cpu in pins.items():
        by_core.setdefault(layout.core(cpu), []).append(vcpu)
    threads = guest.threads if guest is not None else 1
    for core_vcpus in by_core.values():
        cores = [vcpu // threads for vcpu in core_vcpus]
        siblings = sum(cores.count(core) * (cores.count(core) - 1) // 2 for core in set(cores))
        together += siblings
        apart += len(core_vcpus) * (len(core_vcpus) - 1) // 2 - siblings
    return local, together, -apart


class _Match:
    """The working state of one call of matched. before: former pins in the partition. free: unused pCPUs by core."""

    def __init__(
        self,
        partition: frozenset[int],
        awake: Sequence[int],
        guest: GuestTopology | None,
        layout: HostLayout,
        before: Mapping[int, int],
    ) -> None:
        self.threads = guest.threads if guest is not None else 1
        self.cells = guest.cells if guest is not None else ()
        self.awake = awake
        self.pins: dict[int, int] = {}
        self.before = before
        self.was = {vcpu: layout.core(cpu) for vcpu, cpu in before.items()}
        free: dict[Core, list[int]] = {}
        for cpu in sorted(partition):
            free.setdefault(layout.core(cpu), []).append(cpu)
        self.free = dict(sorted(free.items()))
        self.used = dict.fromkeys(self.free, 0)

    def found(self) -> dict[int, int]:
        """Assigns cells to nodes, then on each node guest cores to cores, then the other vCPUs where there is room."""
        by_node: dict[int, set[int]] = {}
        for vcpus, node in self.homes():
            by_node.setdefault(node, set()).update(vcpus)
        for node, here in sorted(by_node.items()):
            self.fill([core for core in self.free if core[0] == node], here)
        self.fill(list(self.free), set(self.awake) - self.pins.keys())
        return dict(sorted(self.pins.items()))

    def homes(self) -> list[tuple[frozenset[int], int]]:
        """A node for the awake vCPUs of each cell, if any is allowed: so that most fit, then so that most stay."""
        free_by_node: dict[int, int] = {}
        for core, cpus in self.free.items():
            free_by_node[core[0]] = free_by_node.get(core[0], 0) + len(cpus)
        cells = []
        for vcpus, nodes in self.cells:
            awake_vcpus = vcpus.intersection(self.awake)
            if awake_vcpus and (allowed := [node for node in sorted(free_by_node) if not nodes or node in nodes]):
                stay = {node: sum(self.was.get(vcpu, (None, 0))[0] == node for vcpu in awake_vcpus) for node in allowed}
                cells.append((awake_vcpus, stay))
        cells.sort(key=lambda cell: (-len(cell[0]), min(cell[0])))
        best: tuple[tuple[int, int], list[int]] = ((-1, -1), [])
        tries = MOST_TRIES

        def search(chosen: list[int], gained: tuple[int, int]) -> None:
            nonlocal best, tries
            rest = cells[len(chosen) :]
            most = (
                gained[0] + sum(len(vcpus) for vcpus, _stay in rest),
                gained[1] + sum(max(stay.values()) for _vcpus, stay in rest),
            )
            if most <= best[0] or (tries <= 0 and best[1]):
                return
            tries -= 1
            if not rest:
                best = (gained, chosen)
                return
            vcpus, stay = rest[0]
            for node in sorted(
                stay, key=lambda node: (-min(free_by_node[node], len(vcpus)), -stay[node], -free_by_node[node], node)
            ):
                taken = min(free_by_node[node], len(vcpus))
                free_by_node[node] -= taken
                search([*chosen, node], (gained[0] + taken, gained[1] + stay[node]))
                free_by_node[node] += taken

        if cells:
            search([], (0, 0))
        return [(vcpus, node) for (vcpus, _stay), node in zip(cells, best[1], strict=True)]

    def fill(self, cores: list[Core], vcpus: set[int]) -> None:
        """Pins as many of *vcpus* as *cores* have room for. Whole guest cores come first, beginning with the largest
        and with those that were there before."""
        widest = max((len(self.free[core]) for core in cores), default=0)
        if not widest:
            return
        by_core: dict[int, list[int]] = {}
        for vcpu in sorted(vcpus):
            by_core.setdefault(vcpu // self.threads, []).append(vcpu)
        parts = [
            core_vcpus[first : first + widest]
            for core_vcpus in by_core.values()
            for first in range(0, len(core_vcpus), widest)
        ]
        parts.sort(key=lambda part: (-len(part), -sum(vcpu in self.was for vcpu in part), part[0]))
        cut = []
        for part in parts:
            stay: dict[Core, int] = {}
            for vcpu in part:
                was = self.was.get(vcpu)
                if was is not None and self.before[vcpu] in self.free[was]:
                    stay[was] = stay.get(was, 0) + 1
            if fits := [core for core in cores if len(self.free[core]) >= len(part)]:
                least = min(self.used[core] for core in fits)
                key = {
                    core: (-stay.get(core, 0), len(self.free[core]), core) for core in fits if self.used[core] == least
                }
                self.put(part, min(key, key=key.__getitem__))
            else:
                cut.append(part)
        for part in cut:  # no core has room for all of it
            left = part
            while left and (free_cores := [core for core in cores if self.free[core]]):
                most = max(free_cores, key=lambda core: (len(self.free[core]), -self.used[core], -core[0], -core[1]))
                left = self.put(left, most)

    def put(self, part: list[int], core: Core) -> list[int]:
        """Pins as many of *part* as *core* has room for, those that were there first. Returns the rest."""
        free = self.free[core]
        order = sorted(part, key=lambda vcpu: (self.before.get(vcpu) not in free, vcpu))
        fitting, left = order[: len(free)], order[len(free) :]
        self.used[core] += len(fitting)
        for vcpu in fitting:
            if self.before.get(vcpu) in free:
                self.pins[vcpu] = self.before[vcpu]
                free.remove(self.before[vcpu])
        for vcpu in fitting:
            if vcpu not in self.pins:
                self.pins[vcpu] = free.pop(0)
        return left
