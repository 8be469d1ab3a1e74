"""The lab's one error."""


class LabError(Exception):
    """The lab cannot do it; the message names the thing and the mend."""
