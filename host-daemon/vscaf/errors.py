"""Errors that one module raises and another handles. Each message says what is wrong and what to do."""


class VscafError(Exception):
    """The base of all errors that vscaf raises on purpose."""


class UsageError(VscafError):
    """A request or a setting of the operator is wrong. Nothing was changed. The command exits with status 2."""


class HypervisorError(VscafError):
    """A libvirt call failed. The classes below are for reasons that callers tell apart."""

    not_begun = False
    """It is known that the call has changed nothing, and will not."""


class HypervisorUnreachable(HypervisorError):
    """There is no working connection to libvirt. The state of the domains is unknown: they may still run."""


class DomainGone(HypervisorError):
    """The domain is not defined, does not run, or has been started again since."""


class NotSupported(HypervisorError):
    """This host or this domain cannot do this, now or later."""
