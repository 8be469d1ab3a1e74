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
WIDTH = 9  # of the column of severities


def report(findings: Sequence[Finding], *, verbose: bool = False) -> str:
    """The findings by subject, and one line that sums them up. *verbose*: with the text of those that are ready.

    Domains with the same findings are shown together.
    """
    by_subject: dict[str, list[Finding]] = {}
    for finding in findings:
        by_subject.setdefault(finding.subject, []).append(finding)
    subjects_of: dict[tuple[str, ...], list[str]] = {}
    for subject, own in by_subject.items():
        subjects_of.setdefault(tuple(_lines(own, verbose=verbose)), []).append(subject)
    lines: list[str] = []
    for body, subjects in subjects_of.items():
        lines += [click.style(printable(_heading(subjects)), bold=True), *body]
    return "\n".join([*lines, summary(findings)])


def _heading(subjects: Sequence[str]) -> str:
    return ", ".join([subjects[0], *(subject.removeprefix("domain ") for subject in subjects[1:])])


def _lines(findings: Sequence[Finding], *, verbose: bool) -> Iterator[str]:
    """Checks with the same text share a line. Without *verbose*, so do all that are ready."""
    for severity in SHOWN_FIRST:
        checks_of: dict[tuple[str, str | None], list[str]] = {}
        for finding in findings:
            if finding.severity is severity:
                quiet = severity is Severity.READY and not verbose
                checks_of.setdefault(("", None) if quiet else (finding.text, finding.fix), []).append(finding.check)
        for (text, fix), checks in checks_of.items():
            names = ", ".join(dict.fromkeys(checks))
            word = click.style(f"{severity:{WIDTH}}", fg=STYLES[severity])
            yield f"  {word}{names}{': ' + one_line(text) if text else ''}"
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
