"""The laws of "one domain never stops or slows the others", and who watches over them. Stated here alone.

A domain is honest where its agent says what its program does and acknowledges what it is told, and no call on it fails.
Whatever any other domain says, does or suffers:

1. Separate. Once an honest domain has come to its partition, no other domain that vscaf has ever pinned runs on it,
   until it rests or gets another.
2. Served. An honest domain that has had the same demand for AWAKE_LOOKS periods has at least its minimum, runs there
   alone, and its guest has been told so.
3. Fair. Under equal shares it then has no less than an equal share of the pool among all domains.
4. Alive. The daemon goes on looking: in each period at least once.
5. Restored. When the daemon ends, everything is as it was found, as soon as the calls that it takes work.

What has its bounds elsewhere: a domain that was pinned once and can no longer be keeps its pCPUs, and nobody else gets
them (README, "What happens when ..."). So the laws are watched over in a pool that has room for all minima beside that.
"""

from collections.abc import Collection, Mapping

from daemon_world import World

AWAKE_LOOKS = 8
"""Two seconds: the demand is seen (1), shrinks have their deadline (2), and a call or two are waited for."""


class Laws:
    """Watches *honest* domains of a world with these minima. To be asked once a period and at each change of pins."""

    def __init__(self, world: World, honest: Collection[str], minima: Mapping[str, int], *, equal: bool) -> None:
        self._world = world
        self._honest = honest
        self._minima = minima
        self._equal = equal
        self._wanting = dict.fromkeys(honest, (0, 0))  # CPUs, and for how many periods
        self._looks = 0
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
                if not mine.isdisjoint(theirs):  # raised here, it would be an error of the call that pins
                    self._broken.append(f"{other} runs on {sorted(mine & theirs)} of {name}")

    def period(self, wanting: Mapping[str, int]) -> None:
        """Laws 1 to 4, after one period in which honest domains wanted so many CPUs."""
        self.separate()
        assert not self._broken, self._broken
        assert self._world.task is not None and not self._world.task.done(), "the daemon has ended"
        assert self._world.host.looks > self._looks, "no look in a period"
        self._looks = self._world.host.looks
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
            assert self._world.agents[name].told[-1].cpus == len(held), f"{name} was not told"

    def _settled(self, name: str) -> frozenset[int]:
        domain = self._world.daemon.managed.get(self._world.keys[name])
        if domain is None or domain.transition is None or domain.transition.moving or domain.state != "cooperating":
            return frozenset()
        return domain.held
