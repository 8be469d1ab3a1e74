"""The lab's error."""


class LabError(Exception):
    """The lab cannot do it. The message names what is wrong and the fix."""
