"""The rules of a domain: from its own metadata, the configuration and the defaults, in this order."""

from dataclasses import dataclass

from vscaf.config import Config, DomainConfig
from vscaf.values import DomainSeen, MetadataRules


@dataclass(frozen=True, slots=True)
class DomainRules:
    """Bounds are pCPUs. maximum None: what the domain and the pool allow. rest None: depends on the host's reserve."""

    minimum: int = 1
    maximum: int | None = None
    weight: float = 1.0
    priority: int = 0
    rest: str | None = None

    def summary(self) -> str:
        """The rules in one line, with the keys of the configuration."""
        values = {"minimum": self.minimum, "maximum": self.maximum, "weight": self.weight, "priority": self.priority}
        return " ".join(f"{key}={value}" for key, value in {**values, "rest": self.rest}.items() if value is not None)


def rules_for(config: Config, name: str, own: MetadataRules | None) -> DomainRules | None:
    """The rules in force for domain *name*. None: it is not managed.

    own: the rules of its metadata, each of which overrides the configuration; None: there are none. A domain is managed
    if the configuration names it or if its metadata have the element, but never with `managed = false`. The maximum of
    the configuration is a ceiling, because users who may edit a domain's metadata need not be the host's operators. It
    also limits the minimum. Any other maximum below the minimum is raised to the minimum.
    """
    listed = config.domains.get(name)
    if listed is not None and not listed.managed:
        return None
    if not config.metadata:
        own = None
    if listed is None and own is None:
        return None
    base = listed or DomainConfig()
    own = own or MetadataRules()
    minimum = own.minimum if own.minimum is not None else base.minimum
    if base.maximum is not None:
        minimum = min(minimum, base.maximum)
    maxima = [maximum for maximum in (own.maximum, base.maximum) if maximum is not None]
    return DomainRules(
        minimum=minimum,
        maximum=max(minimum, min(maxima)) if maxima else None,
        weight=own.weight if own.weight is not None else base.weight,
        priority=own.priority if own.priority is not None else base.priority,
        rest=own.rest or base.rest or config.rest,
    )


def marking_unknown(config: Config, seen: DomainSeen) -> bool:
    """Whether only the domain's metadata decide if it is managed, and cannot be read now, or are wrong."""
    return config.metadata and seen.name not in config.domains and seen.rules is None and seen.rules_error is not None
