"""Pictures need matplotlib, which is optional. All that draw ask here first."""

OLDEST = 3, 8
NEEDED = f"matplotlib {'.'.join(map(str, OLDEST))} or later"
INSTALL = "apt-get install python3-matplotlib (from Debian 13 on), or pip install '.[pictures]' in a clone of vscaf"


def why_no_pictures() -> str:
    """What is missing to draw pictures, and what to do about it. "": nothing."""
    try:
        import matplotlib.figure  # noqa: PLC0415  (optional, and slow to import)
    except ImportError as error:
        reason = str(error)
    else:
        if matplotlib.__version_info__[:2] >= OLDEST:
            return ""
        reason = f"this is {matplotlib.__version__}"
    return f"pictures need {NEEDED} ({reason}): {INSTALL}"
