"""Work on many domains that fails for the sake of a few: found out which, and done without those alone."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

MOST_TRIES = 16
"""Of the work at one time: as many as find one of a few thousand. Whoever is still to be found is at the next time."""


def without_the_failing(names: Sequence[str], attempt: Callable[[frozenset[str]], T]) -> tuple[T, dict[str, Exception]]:
    """The result of *attempt*, and the error of each name that it had to be done without, as far as they were found.

    attempt: given names to leave out, returns a result or raises; it changes nothing. Where it raises although all
    *names* are left out, none of them is to blame, and that exception is raised. Where there are more to be found than
    MOST_TRIES do, the result is one that leaves out others too.
    """
    try:
        return attempt(frozenset()), {}
    except Exception as error:  # noqa: BLE001  whatever it is: the domains that it comes from are looked for
        last: Exception = error
    best = attempt(frozenset(names))
    tries, good, left = 2, 0, list(names)  # the first `good` of those that are left make nothing fail
    found: dict[str, Exception] = {}
    while left:
        bad = len(left)
        while bad - good > 1 and tries < MOST_TRIES:
            middle, tries = (good + bad) // 2, tries + 1
            try:
                best, good = attempt(frozenset([*found, *left[middle:]])), middle
            except Exception as error:  # noqa: BLE001  as above
                last, bad = error, middle
        if bad - good > 1:
            break
        found[left.pop(bad - 1)] = last
        if tries >= MOST_TRIES:
            break
        tries += 1
        try:
            return attempt(frozenset(found)), found
        except Exception as error:  # noqa: BLE001  as above
            last = error
    return best, found
