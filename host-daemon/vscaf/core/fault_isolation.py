"""Work on many domains that fails because of a few: finds these domains, and does the work without them."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

MOST_TRIES = 16
"""The most attempts in one call: enough to find one of a few thousand. The next call finds further ones."""


def without_the_failing(names: Sequence[str], attempt: Callable[[frozenset[str]], T]) -> tuple[T, dict[str, Exception]]:
    """The result of *attempt*, and the error of each failing name that was found and left out.

    attempt: is given the names to leave out, and returns a result or raises. It must not change anything. If it raises
    although all *names* are left out, none of them is the cause, and that exception is raised. If MOST_TRIES are not
    enough to find all, the result leaves out other names too.
    """
    try:
        return attempt(frozenset()), {}
    except Exception as error:  # noqa: BLE001  any error: the domains that cause it are searched
        last: Exception = error
    best = attempt(frozenset(names))
    tries, good, left = 2, 0, list(names)  # the first `good` names of `left` cause no failure
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
