"""The process in which `vscaf policy check` runs a policy, so that the policy can harm only this process.

    python -P -m vscaf.policy.trial REQUEST        one JSON value on the standard output

Of vscaf, only the policies' package is imported here.
"""

import faulthandler
import functools
import importlib
import importlib.util
import inspect
import json
import os
import resource
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn, TextIO, cast

from vscaf_policies import Answer, Options, Policy, PolicyError, PoolState, load_policy, policy_names
from vscaf_policies.conformance import DidNotReturn, Finding, Verdict, ask, check_policy
from vscaf_policies.pool_states import pool_states

_OUTSIDE = ("os.", "socket.", "subprocess.", "shutil.", "tempfile.", "urllib.", "http.", "sqlite3.", "time.sleep")
"""Prefixes of audit events that a pure policy does not cause, in addition to `open`. (`time.sleep`: Python 3.13.)"""

LONGEST_OUTPUT = 16 * 2**20
"""The most bytes that the policy may print, or write to any file."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to do. Mode `check` returns findings, mode `answers` the policy's answer to each of pool_states(seed).

    call_s: seconds after which a call counts as one that does not return. total_s: seconds after which the process
    ends.
    """

    mode: str
    target: str
    options: Mapping[str, Any]
    seed: int
    call_s: float
    total_s: float


def load_target(target: str) -> Policy:
    """The policy *target*: `FILE.py[:FUNCTION]`, `MODULE[:FUNCTION]` or an installed name. PolicyError if not found.

    Modules are searched in the working directory first. Without FUNCTION, the module must have one public function.
    """
    where, colon, function = target.rpartition(":") if ":" in target else (target, "", "")
    if not colon and target in policy_names():
        return load_policy(target)
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = _load_file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    except ModuleNotFoundError as error:
        if where.endswith(".py") or error.name is None or not f"{where}.".startswith(f"{error.name}."):
            raise PolicyError(f"policy {where}: {_one_line(error)}: install it, or remove the import") from error
        there_is = ", ".join(policy_names())
        hint = f"give MODULE:FUNCTION, FILE.py or the name of an installed policy ({there_is})"
        raise PolicyError(f"policy {target}: not found: {hint}") from error
    except (Exception, SystemExit) as error:  # modules are other people's code: they may raise anything
        raise PolicyError(f"policy {where}: {_one_line(error)}: correct it") from error
    policy = getattr(module, function, None) if function else _only_function(module, where)
    if policy is None:
        raise PolicyError(f"policy {where} has no {function}: give one of its functions ({_listed(module)})")
    if not callable(policy):
        raise PolicyError(f"policy {target} is not a function of (pool, options): give one ({_listed(module)})")
    return cast(Policy, policy)


def _load_file(path: Path) -> ModuleType:
    path = path.resolve()
    sys.path.insert(0, str(path.parent))
    name = f"policy_{path.stem}"  # the file may have the name of a module that is imported already
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # the path ends with .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their own module there
    spec.loader.exec_module(module)
    return module


def _functions(module: ModuleType) -> list[str]:
    return sorted(
        name
        for name, one in vars(module).items()
        if inspect.isfunction(one) and one.__module__ == module.__name__ and not name.startswith("_")
    )


def _listed(module: ModuleType) -> str:
    return ", ".join(_functions(module)) or "it has no public function"


def _only_function(module: ModuleType, where: str) -> object:
    names = _functions(module)
    if len(names) != 1:
        raise PolicyError(f"policy {where}: name one function: {where}:FUNCTION ({_listed(module)})")
    return getattr(module, names[0])


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


class Watched:
    """A policy with a time limit for each call. Records what it does besides computing."""

    def __init__(self, policy: Policy, call_s: float) -> None:
        self._policy = policy
        self._call_s = call_s
        self._active = False
        self._process = os.getpid()
        self.seen: dict[str, None] = {}
        if hasattr(policy, "explores"):
            self.explores = policy.explores
        functools.update_wrapper(self, policy, updated=())
        signal.signal(signal.SIGALRM, self._on_time_limit)
        sys.addaudithook(self._audit)

    def __call__(self, pool: PoolState, options: Options) -> Mapping[str, int] | Answer | None:
        signal.setitimer(signal.ITIMER_REAL, self._call_s, self._call_s)  # repeats: the policy may catch the first
        self._active = True
        try:
            return self._policy(pool, options)
        finally:
            self._active = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            if os.getpid() != self._process:
                os._exit(0)  # the policy forked: the checks go on only in the original process

    def _on_time_limit(self, number: int, frame: FrameType | None) -> NoReturn:
        where = f" ({Path(frame.f_code.co_filename).name}:{frame.f_lineno})" if frame else ""
        raise DidNotReturn(f"it did not return within {self._call_s:g} s{where}")

    def _audit(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self._active or not (event == "open" or event.startswith(_OUTSIDE)) or len(self.seen) >= 5:
            return
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not Watched.__call__.__code__:
            if frame.f_code.co_filename.startswith("<frozen importlib"):
                return  # an import at the first call is harmless
            outermost, frame = frame, frame.f_back
        where = f"{Path(outermost.f_code.co_filename).name}:{outermost.f_lineno}"
        self.seen[f"{event}({arguments[0]!r:.80}) at {where}" if arguments else f"{event} at {where}"] = None

    def io(self) -> Finding:
        if self.seen:
            message = f"{'; '.join(self.seen)}: a policy must use only the pool and its options"
            return Finding("io", Verdict.FAILED, message)
        return Finding("io", Verdict.PASSED, "it opens, connects and runs nothing, as far as Python reports")


def trial_result(request: Request) -> dict[str, object]:
    """The result as plain values: `findings`, `answers`, or why the policy was `refused`."""
    try:
        policy = Watched(load_target(request.target), request.call_s)
    except PolicyError as error:
        return {"refused": str(error)}
    if request.mode == "answers":
        results = [ask(policy, state, request.options) for state in pool_states(request.seed)]
        # The text of an exception is left out: it may contain addresses of objects.
        return {
            "answers": [
                [one.kind, sorted(one.cpus.items()), sorted(one.queued), sorted(one.suspended)] for one in results
            ]
        }
    findings = check_policy(policy, request.options, seed=request.seed)
    return {"findings": [asdict(one) for one in (*findings, policy.io())]}


def main(text: str, output: TextIO) -> None:
    """Carries out the request, under a time limit that also ends calls that hang in C code."""
    request = Request(**json.loads(text))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LONGEST_OUTPUT, LONGEST_OUTPUT))
    faulthandler.enable()
    faulthandler.dump_traceback_later(request.total_s, exit=True)
    json.dump(trial_result(request), output)
    output.flush()
    os._exit(0)  # does not wait for threads and exit handlers that the policy left behind


if __name__ == "__main__":
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # the policy's own output must not mix with the result
    main(sys.argv[1], results)
