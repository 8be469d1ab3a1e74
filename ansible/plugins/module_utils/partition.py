# Copyright: the vscaf developers
# SPDX-License-Identifier: Apache-2.0
"""The element <partition/> in a domain's metadata, which holds the domain's rules for the vscaf daemon."""

from __future__ import annotations

from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

NAMESPACE = "https://vscaf.org/xmlns/partition/1"
PREFIX = "vscaf"
MOST_CPUS = 65535
MOST_WEIGHT = 1000.0
MOST_PRIORITY = 1000
RESTS = ("reserve", "share", "keep")
ATTRIBUTES = ("min", "max", "weight", "priority", "rest")


def partition_xml(rules: dict[str, object]) -> str:
    """The element with those of *rules* that are not None: min, max, weight, priority, rest. Same rules, same text."""
    return _text({name: _value(name, rules[name]) for name in ATTRIBUTES if rules.get(name) is not None})


def same_form(xml: str) -> str:
    """The text that `partition_xml` gives for the rules in *xml*, or *xml* itself if it is no element of that kind."""
    try:
        element = ElementTree.fromstring(xml)
        if element.tag.rpartition("}")[2] != "partition" or len(element) or set(element.attrib) - set(ATTRIBUTES):
            return xml
        found = element.attrib
        return _text({name: _value(name, found[name]) for name in ATTRIBUTES if name in found})
    except (ElementTree.ParseError, ValueError):
        return xml


def wrong_rule(rules: dict[str, object]) -> str:
    """What the daemon would not accept in *rules*, in one sentence, or ""."""
    least, most, weight, priority = (rules.get(name) for name in ATTRIBUTES[:4])
    for name, cpus in (("min", least), ("max", most)):
        if cpus is not None and not 1 <= cpus <= MOST_CPUS:
            return f"{name} is {cpus}: give a number of CPUs from 1 to {MOST_CPUS}"
    if least is not None and most is not None and least > most:
        return f"min {least} is above max {most}: lower the one or raise the other"
    if weight is not None and not (0 < weight <= MOST_WEIGHT and float(_value("weight", weight)) > 0):
        return f"weight is {weight}: give a number above 0, at most {MOST_WEIGHT:g}, with at most 9 decimals"
    if priority is not None and abs(priority) > MOST_PRIORITY:
        return f"priority is {priority}: give a whole number from -{MOST_PRIORITY} to {MOST_PRIORITY}"
    return ""


def _value(name: str, value: object) -> str:
    """The value of an attribute as text. ValueError if it should be a number and is none."""
    if name == "weight":
        return f"{float(value):.9f}".rstrip("0").rstrip(".")
    return str(value) if name == "rest" else str(int(value))


def _text(values: dict[str, str]) -> str:
    return "<partition" + "".join(f" {name}={quoteattr(value)}" for name, value in values.items()) + "/>"
