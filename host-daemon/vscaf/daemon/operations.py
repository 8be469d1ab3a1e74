"""The requests that an operator may send to the running daemon."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from vscaf.config import DEFAULT_CONFIG, PolicyConfig
from vscaf.control.messages import ConfigChange, LastDecision, Recording
from vscaf.daemon.loop import Daemon
from vscaf.daemon.reload import reload
from vscaf.daemon.service_manager import STOPPING, notify, ready, reloading
from vscaf.daemon.status import status
from vscaf.domains.domain import ManagedDomain
from vscaf.errors import UsageError, VscafError
from vscaf.policy.loading import loaded_policy, tried_policy
from vscaf.record.files import recorded_files
from vscaf.record.lines import Encoder
from vscaf.values import State


class Operations:
    """The control API's side of *daemon*. *config_file*: what reload() reads."""

    def __init__(self, daemon: Daemon, config_file: Path = DEFAULT_CONFIG) -> None:
        self._daemon = daemon
        self._config_file = config_file

    def status(self) -> dict[str, Any]:
        """The status, as `vscaf status --json` prints it."""
        return status(self._daemon)

    def last_decision(self) -> LastDecision:
        """The last decision, and what the next one is made from."""
        log, encoder, lines = self._daemon.decisions, Encoder(), None
        if log.last is not None:
            state = encoder.line(log.remembered(self._daemon.decider))
            lines = (state.decode(), encoder.line(log.last).decode())
        return LastDecision(lines=lines, changes=log.changes)

    async def recording(self) -> Recording:
        """Whether decisions are recorded, and what the recordings take."""
        recorder = self._daemon.decisions.recorder
        directory = recorder.files.directory
        sizes = await asyncio.to_thread(_sizes, directory)
        return Recording(
            since=recorder.since,
            failed=recorder.failed,
            directory=str(directory),
            files=len(sizes),
            bytes=sum(sizes),
            most_bytes=recorder.files.most_bytes,
        )

    async def record(self, on: bool) -> Recording:
        """Records decisions from now on, or stops to. Once it has stopped, all decisions are in the file.

        The next daemon records if its configuration says so.
        """
        recorder = self._daemon.decisions.recorder
        if on:
            recorder.start()
            self._daemon.wake()
        else:
            await recorder.close()
        return await self.recording()

    async def set_policy(self, name: str, options: Mapping[str, object]) -> None:
        """Uses another policy from now on, after one trial on the present pool.

        UsageError if no policy has that name, if it refuses its options, or if it fails. The policy stays in use until
        the daemon ends, or until a reload brings another one. The next daemon uses the configuration again.
        """
        chosen = PolicyConfig(name=name, options=dict(options))
        await self._use(chosen)

    async def rollback_policy(self) -> str:
        """Goes back to the policy before the last set_policy, and returns its name. UsageError if there is none."""
        former = self._daemon.former_policy
        if former is None:
            raise UsageError("no policy was set since the daemon started: there is none to go back to")
        await self._use(former)
        return former.name

    async def _use(self, chosen: PolicyConfig) -> None:
        policy = await asyncio.to_thread(loaded_policy, chosen)  # the loop serves guests meanwhile
        self._daemon.use_policy(chosen, tried_policy(policy, chosen, self._daemon.pool_state()))

    async def reload(self, allow: Callable[[str | None, str | None], None]) -> list[ConfigChange]:
        """As daemon.reload.reload."""
        notify(*reloading())
        try:
            return await reload(self._daemon, self._config_file, allow)
        finally:
            notify(*ready(f"pool {self._daemon.config.pool}, policy {self._daemon.policy_name}"))

    async def release(self, domain: str | None) -> list[str]:
        """Gives a domain (None: every one) back as it was found. It is not managed again before manage().

        Returns the names of those released. VscafError if libvirt refuses to put something back, or if the journal
        cannot be written. A domain whose release cannot be written stays managed.
        """
        chosen = [one for one in self._chosen(domain) if not one.left_alone or one.found is not None]
        leave = self._daemon.registry.release.leave_alone
        done = await asyncio.gather(
            *(leave(one, State.RELEASED, "by request") for one in chosen), return_exceptions=True
        )
        failed = [one.name for one, left in zip(chosen, done, strict=True) if left is False]
        refused = [str(error) for error in done if isinstance(error, VscafError)]
        for error in done:
            if isinstance(error, BaseException) and not isinstance(error, VscafError):
                raise error
        if failed:
            refused.append(f"domain {', '.join(failed)}: could not be put back as found: see the daemon's log")
        if refused:
            raise VscafError("; ".join(refused))
        return sorted(one.name for one in chosen)

    async def manage(self, domain: str | None) -> list[str]:
        """Manages a domain (None: every one) again that was released, or left alone because of a foreign change.

        Returns the names. VscafError if the journal cannot be written: that domain and those after it are unchanged.
        """
        chosen = [one for one in self._chosen(domain) if one.left_alone]
        for one in chosen:
            await self._daemon.registry.release.manage(one)
        return sorted(one.name for one in chosen)

    async def off(self) -> None:
        """Puts everything back as it was found and ends the daemon.

        VscafError if something could not be put back. The daemon still ends, and the journal keeps the settings.
        """
        notify(STOPPING)
        self._daemon.stop()
        await self._daemon.ended.wait()
        if self._daemon.not_put_back:
            raise VscafError(
                f"domain {', '.join(self._daemon.not_put_back)}: could not be put back as found: "
                "run `vscaf release` when libvirt answers again"
            )

    def _chosen(self, name: str | None) -> list[ManagedDomain]:
        present = [one for one in self._daemon.managed.values() if name is None or one.name == name]
        if name is not None and not present:
            known = ", ".join(sorted(one.name for one in self._daemon.managed.values())) or "none"
            raise UsageError(f"domain {name}: does not run, or is not managed here (managed domains: {known})")
        return present


def _sizes(directory: Path) -> list[int]:
    """The sizes of the recordings in *directory*."""
    sizes = []
    for path in recorded_files(directory):
        with contextlib.suppress(FileNotFoundError):  # the recorder has just removed it, to keep within its bound
            sizes.append(path.stat().st_size)
    return sizes
