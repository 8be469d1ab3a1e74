"""Errors that cross a module's border. Each message names the thing and the mend."""


class VscafError(Exception):
    """Anything vscaf raises on purpose."""


class UsageError(VscafError):
    """What the operator gave is wrong; nothing was changed. The command exits with status 2."""


class HypervisorError(VscafError):
    """A libvirt call failed for a reason that has no class of its own below."""


class HypervisorUnreachable(HypervisorError):
    """There is no working connection to libvirt: what domains do is unknown, not nothing."""


class DomainGone(HypervisorError):
    """The domain is not defined, not running, or was replaced by another run."""


class NotSupported(HypervisorError):
    """This host or this domain cannot do what was asked, now or ever."""
