"""What a check says: findings, and how checks are run."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

HOST = "host"

T = TypeVar("T")
Subject = TypeVar("Subject")


class Severity(StrEnum):
    """READY: as it should be. PROBLEM: vscaf works badly or not at all. NOTE: worth knowing. UNKNOWN: not readable."""

    READY = "ready"
    PROBLEM = "problem"
    NOTE = "note"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check. `subject`: "host" or "domain NAME". `fix`: a shell command for the host, if there is one.

    Words in parentheses at the start of `fix` say where else the command has to be run, for example in the guest.
    """

    subject: str
    check: str
    severity: Severity
    text: str
    fix: str | None = None


class Verdict(NamedTuple):
    """A finding without its subject and its check, as the functions of checks return it."""

    severity: Severity
    text: str
    fix: str | None = None


def ready(text: str) -> Verdict:
    return Verdict(Severity.READY, text)


def problem(text: str, fix: str) -> Verdict:
    return Verdict(Severity.PROBLEM, text, fix)


def note(text: str, fix: str | None = None) -> Verdict:
    return Verdict(Severity.NOTE, text, fix)


def unknown(text: str, fix: str | None = None) -> Verdict:
    return Verdict(Severity.UNKNOWN, text, fix)


@dataclass(frozen=True, slots=True)
class Unknown:
    """Stands for a fact that could not be read. `why`: the reason, for the operator."""

    why: str


class NotKnown(Exception):
    """A check needs a fact that could not be read. The message is the reason."""


def known(fact: T | Unknown) -> T:
    """The fact. NotKnown if it could not be read."""
    if isinstance(fact, Unknown):
        raise NotKnown(fact.why)
    return fact


@dataclass(frozen=True, slots=True)
class Check(Generic[Subject]):
    """A check. `looks_at`, `problem`: what it looks at, and when that is a problem, for the documentation.

    `judge` returns at least one verdict, or raises NotKnown. It reads nothing by itself.
    """

    name: str
    looks_at: str
    problem: str
    judge: Callable[[Subject], Iterable[Verdict]]


def run_checks(checks: Iterable[Check[Subject]], subject: Subject, name: str) -> list[Finding]:
    """The findings of *checks* about *subject*. A check whose facts are not known has a finding of severity UNKNOWN."""
    findings = []
    for check in checks:
        try:
            for verdict in check.judge(subject):
                findings.append(Finding(name, check.name, *verdict))
        except NotKnown as reason:  # what it found before counts
            findings.append(Finding(name, check.name, *unknown(str(reason))))
    return findings
