"""A domain's rules from its own metadata: `virsh metadata DOMAIN --uri https://vscaf.org/xmlns/partition/1 --key vscaf
--set '<partition min="1" max="4" weight="2" priority="10" rest="keep"/>' --live --config`.

A user who may edit a domain may write anything here, so parsing is strict. If any part is wrong, none of it is used,
and the error is one sentence.
"""

import re
from collections.abc import Iterable
from xml.etree import ElementTree

from vscaf.values import MetadataRules

NAMESPACE = "https://vscaf.org/xmlns/partition/1"
MOST_CPUS = 65535
MOST_WEIGHT = 1000.0
MOST_PRIORITY = 1000
RESTS = ("reserve", "share", "keep")
SHOWN_CHARACTERS = 40


class BadRules(ValueError):
    """The metadata of a domain are not valid rules. The message is one sentence for the operator."""


def parse_rules(metadata: ElementTree.Element | None) -> MetadataRules | None:
    """The rules in a domain's <metadata>. None: it has no element of vscaf's. BadRules if they are wrong."""
    if metadata is None:
        return None
    elements = [child for child in metadata if isinstance(child.tag, str) and child.tag.startswith(f"{{{NAMESPACE}}}")]
    if not elements:
        return None
    if len(elements) > 1:
        raise BadRules("metadata: more than one element of vscaf's: keep one <vscaf:partition/>")
    (element,) = elements
    name = element.tag.removeprefix(f"{{{NAMESPACE}}}")
    if name != "partition":
        raise BadRules(f"metadata: <vscaf:{_shown(name)}> is unknown: write <vscaf:partition/>")
    if len(element) or (element.text or "").strip():
        raise BadRules("metadata: <vscaf:partition> has content: it takes only attributes")
    unknown = sorted(set(element.attrib) - {"min", "max", "weight", "priority", "rest"})
    if unknown:
        raise BadRules(f"metadata: {_shown(unknown[0])} is unknown: it takes min, max, weight, priority and rest")
    given = element.attrib
    rules = MetadataRules(
        minimum=_whole("min", given.get("min"), 1, MOST_CPUS),
        maximum=_whole("max", given.get("max"), 1, MOST_CPUS),
        weight=_weight(given.get("weight")),
        priority=_whole("priority", given.get("priority"), -MOST_PRIORITY, MOST_PRIORITY),
        rest=_one_of("rest", given.get("rest"), RESTS),
    )
    if rules.minimum is not None and rules.maximum is not None and rules.minimum > rules.maximum:
        raise BadRules(f"metadata: min {rules.minimum} is above max {rules.maximum}: lower the one or raise the other")
    return rules


def _whole(name: str, text: str | None, least: int, most: int) -> int | None:
    if text is None:
        return None
    if re.fullmatch(r"-?[0-9]{1,6}", text) is None or not least <= int(text) <= most:
        raise BadRules(f"metadata: {name}={_shown(text)}: give a whole number from {least} to {most}")
    return int(text)


def _weight(text: str | None) -> float | None:
    if text is None:
        return None
    if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,9})?", text) is None or not 0 < float(text) <= MOST_WEIGHT:
        raise BadRules(f"metadata: weight={_shown(text)}: give a number above 0, at most {MOST_WEIGHT:g}")
    return float(text)


def _one_of(name: str, text: str | None, choices: Iterable[str]) -> str | None:
    if text is not None and text not in choices:
        raise BadRules(f"metadata: {name}={_shown(text)}: give one of {', '.join(choices)}")
    return text


def _shown(text: str) -> str:
    """The text in a form for the log: short, on one line."""
    return repr(text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "...")
