"""Findings as text for people."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import click

from vscaf.doctor.finding import HOST, Finding, Severity
from vscaf.terminal import one_line, printable

STYLES: Mapping[Severity, str] = {
    Severity.READY: "green",
    Severity.PROBLEM: "red",
    Severity.NOTE: "cyan",
    Severity.UNKNOWN: "yellow",
}
SHOWN_FIRST = (Severity.PROBLEM, Severity.NOTE, Severity.UNKNOWN, Severity.READY)
SHARED = "several domains"
MOST_NAMES = 6
WIDTH = 9  # of the column of severities


def report(findings: Sequence[Finding], *, verbose: bool = False) -> str:
    """The findings by subject, and one line that sums them up. *verbose*: also those that are ready.

    Domains with the same findings are shown together. A note, or what is unknown, that is the same for several domains
    is shown once after them.
    """
    by_subject: dict[str, list[Finding]] = {}
    alike: dict[tuple[str, Severity, str], list[Finding]] = {}
    for finding in findings:
        by_subject.setdefault(finding.subject, []).append(finding)
        if finding.severity in (Severity.NOTE, Severity.UNKNOWN):
            alike.setdefault((finding.check, finding.severity, finding.text), []).append(finding)
    shared = {key: several for key, several in alike.items() if len(several) > 1}
    subjects_of: dict[tuple[str, ...], list[str]] = {}
    for subject, own in by_subject.items():
        left = [one for one in own if (one.check, one.severity, one.text) not in shared]
        body = (_count_ready(own), *_lines(left, verbose=verbose))
        subjects_of.setdefault(body, []).append(subject)
    lines: list[str] = []
    for body, subjects in subjects_of.items():
        lines += [f"{_bold(_names(subjects))} ({body[0]})", *body[1:]]
    if shared:
        lines += [_bold(SHARED), *_shared_lines(shared.values())]
    return "\n".join([*lines, summary(findings)])


def _count_ready(findings: Sequence[Finding]) -> str:
    checks = {one.check for one in findings}
    others = {one.check for one in findings if one.severity is not Severity.READY}
    return f"{len(checks - others)} of {len(checks)} checks ready"


def _bold(text: str) -> str:
    return click.style(printable(text), bold=True)


def _names(subjects: Sequence[str]) -> str:
    names = [subjects[0], *(subject.removeprefix("domain ") for subject in subjects[1:MOST_NAMES])]
    more = len(subjects) - MOST_NAMES
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def _lines(findings: Sequence[Finding], *, verbose: bool) -> Iterator[str]:
    """Checks with the same text share a line."""
    for severity in SHOWN_FIRST[: None if verbose else -1]:
        checks_of: dict[tuple[str, str | None], list[str]] = {}
        for finding in findings:
            if finding.severity is severity:
                checks_of.setdefault((finding.text, finding.fix), []).append(finding.check)
        for (text, fix), checks in checks_of.items():
            yield from _line(severity, f"{', '.join(dict.fromkeys(checks))}: {text}", fix)


def _shared_lines(groups: Iterable[Sequence[Finding]]) -> Iterator[str]:
    for group in sorted(groups, key=lambda group: SHOWN_FIRST.index(group[0].severity)):
        first = group[0]
        names = _names([one.subject.removeprefix("domain ") for one in group])
        same = all(one.fix == first.fix for one in group)
        fix = first.fix if same or first.fix is None else f"{first.fix}  # and so on for the others"
        yield from _line(first.severity, f"{first.check}: {first.text}: {names}", fix)


def _line(severity: Severity, text: str, fix: str | None) -> Iterator[str]:
    yield f"  {click.style(f'{severity:{WIDTH}}', fg=STYLES[severity])}{one_line(text)}"
    if fix is not None:
        yield f"  {'':{WIDTH}}  fix: {printable(fix)}"


def summary(findings: Iterable[Finding]) -> str:
    """One line: how many problems there are, and how many domains have none."""
    counts = dict.fromkeys(Severity, 0)
    worst: dict[str, bool] = {}
    for finding in findings:
        counts[finding.severity] += 1
        problem = finding.severity is Severity.PROBLEM
        worst[finding.subject] = worst.get(finding.subject, False) or problem
    domains = [bad for subject, bad in worst.items() if subject != HOST]
    problems, notes = counts[Severity.PROBLEM], counts[Severity.NOTE]
    parts = [
        f"{problems or 'no'} problem{'s' * (problems != 1)}",
        f"{notes} note{'s' * (notes != 1)}",
        f"{counts[Severity.UNKNOWN]} unknown",
    ]
    return f"{', '.join(parts)}: {domains.count(False)} of {len(domains)} domains without a problem"
