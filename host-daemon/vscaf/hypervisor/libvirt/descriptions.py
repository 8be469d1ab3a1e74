"""What is known of the domains' descriptions, and which of them have to be read again."""

from collections import Counter
from collections.abc import Container
from dataclasses import dataclass

from vscaf.hypervisor.libvirt.domain_xml import Description
from vscaf.values import DomainKey, MetadataRules

RETRY_S = 1.0
AGE_S = 30.0  # how old one gets where the driver does not tell of every change


@dataclass(slots=True)
class _Known:
    description: Description | None = None
    rules: MetadataRules | None = None  # the last good ones
    epoch: int = -1  # of the domain, when the reading began that `description` is from
    read_at_s: float = float("-inf")
    failing: bool = False


class Descriptions:
    """One description a run of a domain, read once and again after each event that may have changed it.

    `events_complete`: whether the driver tells of every change; otherwise descriptions are read again with age.
    """

    def __init__(self) -> None:
        self.events_complete = True
        self._known: dict[DomainKey, _Known] = {}
        self._epochs: Counter[str] = Counter()

    def __contains__(self, key: DomainKey) -> bool:
        return self.get(key) is not None

    def get(self, key: DomainKey) -> Description | None:
        """The description, None while it is not known."""
        known = self._known.get(key)
        return known.description if known is not None else None

    def rules(self, key: DomainKey) -> MetadataRules | None:
        """The rules of the description; the last good ones where they are wrong now."""
        known = self._known.get(key)
        return known.rules if known is not None else None

    def keep(self, keys: Container[DomainKey]) -> None:
        """Forgets all but *keys*."""
        self._known = {key: known for key, known in self._known.items() if key in keys}
        uuids = {key.uuid for key in self._known}
        self._epochs = Counter({uuid: epoch for uuid, epoch in self._epochs.items() if uuid in uuids})

    def outdate(self, uuid: str) -> None:
        """Something happened to that domain: its description counts no more once another can be read."""
        self._epochs[uuid] += 1

    def outdate_all(self) -> None:
        """Events may have been missed."""
        for key in self._known:
            self._epochs[key.uuid] += 1

    def due(self, key: DomainKey, now_s: float) -> bool:
        """Whether the description has to be read. A failed reading is tried again after a second."""
        known = self._known.get(key)
        if known is None:
            return True
        age_s = now_s - known.read_at_s
        if known.failing or known.description is None:
            return age_s >= RETRY_S
        return known.epoch != self._epochs[key.uuid] or (age_s >= AGE_S and not self.events_complete)

    def begin(self, key: DomainKey, now_s: float) -> int:
        """To be called before a reading; the result goes to store()."""
        self._known.setdefault(key, _Known()).read_at_s = now_s
        return self._epochs[key.uuid]

    def failed(self, key: DomainKey) -> bool:
        """Notes that a reading failed; whether it is the first after one that did not."""
        known = self._known.setdefault(key, _Known())
        first, known.failing = not known.failing, True
        return first

    def store(self, key: DomainKey, description: Description, epoch: int) -> bool:
        """Notes what was read; whether that differs from what was known."""
        known = self._known.setdefault(key, _Known())
        changed = known.description != description
        known.description, known.epoch, known.failing = description, epoch, False
        if description.rules_error is None:
            known.rules = description.rules
        return changed
