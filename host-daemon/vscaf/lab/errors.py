"""The lab's error."""

from vscaf.errors import VscafError


class LabError(VscafError):
    """The lab cannot do it. The message names what is wrong and the fix."""
