"""The laws of "one domain never stops or slows the others", and the class that checks them.

The laws are stated only here. A domain is honest if its agent reports what its program really does and acknowledges
each message, and if no call on the domain fails. The laws hold whatever any other domain reports, does or suffers:

1. Separate. Once an honest domain runs in its partition, no other domain that vscaf has ever pinned runs there. This
   holds until the honest domain rests or gets another partition.
2. Served. If an honest domain has had the same demand for AWAKE_LOOKS periods, it has at least its minimum, runs only
   on the pCPUs that it has, and its guest has been told their number.
3. Fair. Under equal shares it then also has at least an equal share of the pool among all domains.
4. Alive. The daemon looks at the host at least once in each period, or in QUIET_LOOKS periods while it is quiet.
5. Restored. When the daemon ends, it puts everything back as it found it, as soon as the necessary calls work.

One exception has its bounds elsewhere: a domain that vscaf has pinned once and can no longer pin keeps its pCPUs, and
no other domain gets them (host-daemon/README.md, "What happens when"). So the laws are checked in a pool that has room
for those pCPUs and for all minima.
"""

from collections.abc import Collection, Mapping

from daemon_world import World

AWAKE_LOOKS = 8
"""Two seconds: to see the demand (1 period), for the deadline of shrinks (2), and to wait for a call or two."""

QUIET_LOOKS = 5
"""The most periods between two looks while nothing is in doubt or under way: QUIET_PERIODS, in whole periods."""


class Laws:
    """Checks the laws for the *honest* domains of a world. Call `period` once a period. `separate` runs at each change
    of pins. minima: by domain, in CPUs. equal: the policy gives equal shares, so law 3 is checked too."""

    def __init__(self, world: World, honest: Collection[str], minima: Mapping[str, int], *, equal: bool) -> None:
        self._world = world
        self._honest = honest
        self._minima = minima
        self._equal = equal
        self._wanting = dict.fromkeys(honest, (0, 0))  # CPUs, and for how many periods
        self._looks = 0
        self._without_look = 0
        self._quiet = False
        self._broken: list[str] = []
        world.on_pins = self.separate

    def separate(self) -> None:
        """Law 1."""
        for name in self._honest:
            mine = self._settled(name)
            if not mine:
                continue
            for other, key in self._world.keys.items():
                domain = self._world.daemon.managed.get(key)
                if other == name or domain is None or domain.transition is None or not domain.transition.placed:
                    continue
                theirs = self._world.reach(other) - self._world.daemon.reserve
                if not mine.isdisjoint(theirs):  # an error raised here would look like an error of the pin call
                    self._broken.append(f"{other} runs on {sorted(mine & theirs)} of {name}")

    def period(self, wanting: Mapping[str, int]) -> None:
        """Checks laws 1 to 4 after one period. wanting: how many CPUs each honest domain wanted in it."""
        self.separate()
        assert not self._broken, self._broken
        assert self._world.task is not None and not self._world.task.done(), "the daemon has ended"
        looked = self._world.host.looks > self._looks
        self._without_look = 0 if looked else self._without_look + 1
        quiet = self._quiet and self._world.daemon.quiet  # now and a period ago
        assert looked or (quiet and self._without_look < QUIET_LOOKS), "no look in a period"
        self._looks, self._quiet = self._world.host.looks, self._world.daemon.quiet
        for name in self._honest:
            cpus, periods = self._wanting[name]
            self._wanting[name] = (wanting[name], periods + 1 if wanting[name] == cpus else 0)
            if not cpus or self._wanting[name][1] < AWAKE_LOOKS:
                continue
            domain, held = self._world.domain(name), self._world.held(name)
            due = min(wanting[name], self._minima[name])
            if self._equal:
                share = len(self._world.daemon.pool.cpus) // len(self._world.keys)
                due = max(due, min(wanting[name], share))
            assert len(held) >= due, f"{name} has {len(held)} pCPUs and is due {due}: {domain.state}"
            assert self._world.reach(name) <= held, f"{name} runs on more than it has"
            assert self._world.agents[name].received[-1].cpus == len(held), f"{name} was not told"

    def _settled(self, name: str) -> frozenset[int]:
        domain = self._world.daemon.managed.get(self._world.keys[name])
        if domain is None or domain.transition is None or domain.transition.moving or domain.state != "cooperating":
            return frozenset()
        return domain.held
