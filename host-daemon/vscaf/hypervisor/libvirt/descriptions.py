"""The known descriptions of the domains, and which of them have to be read again."""

from collections import Counter
from collections.abc import Container
from dataclasses import dataclass

from vscaf.hypervisor.libvirt.domain_xml import Description
from vscaf.values import DomainKey, MetadataRules

RETRY_S = 1.0
AGE_S = 30.0  # a description is read again after this time if the driver does not report every change


@dataclass(slots=True)
class _Known:
    description: Description | None = None
    rules: MetadataRules | None = None  # the last good ones
    epoch: int = -1  # the domain's epoch when the reading of `description` began
    read_at_s: float = float("-inf")
    failing: bool = False


class Descriptions:
    """One description for each run of a domain. It is read once, and again after each event that may have changed it.

    `events_complete`: whether the driver reports every change. If not, descriptions are read again after AGE_S.
    """

    def __init__(self) -> None:
        self.events_complete = True
        self._known: dict[DomainKey, _Known] = {}
        self._epochs: Counter[str] = Counter()

    def __contains__(self, key: DomainKey) -> bool:
        return self.get(key) is not None

    def get(self, key: DomainKey) -> Description | None:
        """The description. None: it is not known yet."""
        known = self._known.get(key)
        return known.description if known is not None else None

    def rules(self, key: DomainKey) -> MetadataRules | None:
        """The rules of the description, or the last good ones if they are wrong now."""
        known = self._known.get(key)
        return known.rules if known is not None else None

    def keep(self, keys: Container[DomainKey]) -> None:
        """Forgets all but *keys*."""
        self._known = {key: known for key, known in self._known.items() if key in keys}
        uuids = {key.uuid for key in self._known}
        self._epochs = Counter({uuid: epoch for uuid, epoch in self._epochs.items() if uuid in uuids})

    def outdate(self, uuid: str) -> None:
        """Notes that the domain's description may have changed. The old one is used until it can be read again."""
        self._epochs[uuid] += 1

    def outdate_all(self) -> None:
        """Outdates all descriptions, because events may have been missed."""
        for key in self._known:
            self._epochs[key.uuid] += 1

    def due(self, key: DomainKey, now_s: float) -> bool:
        """Whether the description has to be read. A failed reading is tried again after RETRY_S."""
        known = self._known.get(key)
        if known is None:
            return True
        age_s = now_s - known.read_at_s
        if known.failing or known.description is None:
            return age_s >= RETRY_S
        return known.epoch != self._epochs[key.uuid] or (age_s >= AGE_S and not self.events_complete)

    def begin(self, key: DomainKey, now_s: float) -> int:
        """Must be called before a reading. The result must be passed to store()."""
        self._known.setdefault(key, _Known()).read_at_s = now_s
        return self._epochs[key.uuid]

    def failed(self, key: DomainKey) -> bool:
        """Notes that a reading failed. Returns whether the one before had not failed."""
        known = self._known.setdefault(key, _Known())
        first, known.failing = not known.failing, True
        return first

    def store(self, key: DomainKey, description: Description, epoch: int) -> bool:
        """Stores the description that was read. Returns whether it differs from the one before."""
        known = self._known.setdefault(key, _Known())
        changed = known.description != description
        known.description, known.epoch, known.failing = description, epoch, False
        if description.rules_error is None:
            known.rules = description.rules
        return changed
