"""The process in which `vscaf policy check` runs somebody's policy: whatever it does there, it does to nobody else.

    python -P -m vscaf.policy.trial REQUEST        one JSON value on the standard output

Nothing of vscaf but the policies' package is imported here.
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
"""How audit events begin by which a policy gives itself away, besides `open`. (`time.sleep`: since Python 3.13.)"""

LONGEST_OUTPUT = 16 * 2**20
"""Bytes that it may print, or write to any file."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to do: mode `check` gives findings, `answers` what is said of each of pool_states(seed).

    call_s: seconds after which a call counts as one that does not return. total_s: after which the process ends.
    """

    mode: str
    target: str
    options: Mapping[str, Any]
    seed: int
    call_s: float
    total_s: float


def load_target(target: str) -> Policy:
    """The policy that is meant: `FILE.py[:FUNCTION]`, `MODULE[:FUNCTION]` or an installed name. PolicyError if none is.

    Modules are looked for in the working directory first; without FUNCTION, it is the only public one there.
    """
    where, colon, function = target.rpartition(":") if ":" in target else (target, "", "")
    if not colon and target in policy_names():
        return load_policy(target)
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = _load_file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    except ModuleNotFoundError as error:
        if where.endswith(".py") or error.name is None or not f"{where}.".startswith(f"{error.name}."):
            raise PolicyError(f"policy {where}: {_words(error)}: install it, or remove the import") from error
        there_is = ", ".join(policy_names())
        mend = f"give MODULE:FUNCTION, FILE.py or the name of an installed policy ({there_is})"
        raise PolicyError(f"policy {target}: there is no such policy: {mend}") from error
    except (Exception, SystemExit) as error:  # modules are other people's code: they may raise anything
        raise PolicyError(f"policy {where}: {_words(error)}: mend it") from error
    policy = getattr(module, function, None) if function else _only_function(module, where)
    if policy is None:
        raise PolicyError(f"policy {where} has no {function}: give one of its functions ({_listed(module)})")
    if not callable(policy):
        raise PolicyError(f"policy {target} is no function of (pool, options): give one ({_listed(module)})")
    return cast(Policy, policy)


def _load_file(path: Path) -> ModuleType:
    path = path.resolve()
    sys.path.insert(0, str(path.parent))
    name = f"policy_{path.stem}"  # the file may be called as a module that is there already
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # it ends with .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # a dataclass in it looks itself up
    spec.loader.exec_module(module)
    return module


def _functions(module: ModuleType) -> list[str]:
    return sorted(
        name
        for name, one in vars(module).items()
        if inspect.isfunction(one) and one.__module__ == module.__name__ and not name.startswith("_")
    )


def _listed(module: ModuleType) -> str:
    return ", ".join(_functions(module)) or "it has none that is public"


def _only_function(module: ModuleType, where: str) -> object:
    names = _functions(module)
    if len(names) != 1:
        raise PolicyError(f"policy {where}: say which function: {where}:FUNCTION ({_listed(module)})")
    return getattr(module, names[0])


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


class Watched:
    """A policy under a limit of time for each call, of which is noted what it does besides."""

    def __init__(self, policy: Policy, call_s: float) -> None:
        self._policy = policy
        self._call_s = call_s
        self._active = False
        self._process = os.getpid()
        self.seen: dict[str, None] = {}
        if hasattr(policy, "explores"):
            self.explores = policy.explores
        functools.update_wrapper(self, policy, updated=())
        signal.signal(signal.SIGALRM, self._too_late)
        sys.addaudithook(self._audit)

    def __call__(self, pool: PoolState, options: Options) -> Mapping[str, int] | Answer | None:
        signal.setitimer(signal.ITIMER_REAL, self._call_s, self._call_s)  # again, should it catch the first one
        self._active = True
        try:
            return self._policy(pool, options)
        finally:
            self._active = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            if os.getpid() != self._process:
                os._exit(0)  # the policy forked: the checks go on once

    def _too_late(self, number: int, frame: FrameType | None) -> NoReturn:
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
            words = f"{'; '.join(self.seen)}: a policy has the pool and its options to go by, and nothing else"
            return Finding("io", Verdict.FAILED, words)
        return Finding("io", Verdict.PASSED, "it opens, connects and runs nothing, as far as Python tells")


def tried(request: Request) -> dict[str, object]:
    """What came of it, as plain values: `findings`, `answers`, or why it was `refused`."""
    try:
        policy = Watched(load_target(request.target), request.call_s)
    except PolicyError as error:
        return {"refused": str(error)}
    if request.mode == "answers":
        said = [ask(policy, state, request.options) for state in pool_states(request.seed)]
        # What it raises may name objects by their addresses.
        return {
            "answers": [[one.kind, sorted(one.cpus.items()), sorted(one.queued), sorted(one.suspended)] for one in said]
        }
    findings = check_policy(policy, request.options, seed=request.seed)
    return {"findings": [asdict(one) for one in (*findings, policy.io())]}


def main(text: str, output: TextIO) -> None:
    """Do what the request says, under a limit that C code cannot hold up either."""
    request = Request(**json.loads(text))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LONGEST_OUTPUT, LONGEST_OUTPUT))
    faulthandler.enable()
    faulthandler.dump_traceback_later(request.total_s, exit=True)
    json.dump(tried(request), output)
    output.flush()
    os._exit(0)  # threads and exit handlers that the policy left behind are not waited for


if __name__ == "__main__":
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the policy prints must not get in between
    main(sys.argv[1], results)
