"""A running daemon uses its changed configuration file, and gives back only what that does not name any more."""

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import libvirt
import pytest
from vscaf.config import load_config
from vscaf.control.messages import ConfigChange
from vscaf.daemon.loop import Daemon
from vscaf.daemon.operations import Operations
from vscaf.daemon.status import status
from vscaf.errors import UsageError, VscafError
from vscaf.hypervisor.libvirt.host import LibvirtHost
from vscaf.lab.polling import HANG_S
from vscaf.lab.polling import until as soon

from .faults import Faults
from .node import write_node
from .test_commands import CONFIG, Site, a_site
from .test_daemon import on_host, partitions, pins_of, running, until
from .test_guard import alive, ignored

ALL = frozenset(range(5))  # where the driver's domains are when they start on a node of five CPUs
THREE = dict.fromkeys("abc", (2, 2))
CALLS = ("pinVcpu", "pinEmulator", "setVcpusFlags", "setSchedulerParametersFlags", "suspend", "resume")
ONE_EACH = "[domains.a]\nmaximum = 1\n[domains.b]\nmaximum = 1\n"


class File:
    """The daemon's configuration file."""

    def __init__(self, directory: Path, uri: str) -> None:
        self.path = directory / "vscaf.toml"
        self._top = (
            f'uri = "{uri}"\nstate_directory = "{directory}/state"\ncontrol_socket = "{directory}/control.sock"\n'
        )

    def write(
        self,
        tables: str,
        pool: str = "0,2,4",
        top: str = "deadline_ms = 50",
        policy: str = "name = 'equipartition'",
    ) -> None:
        text = f'{self._top}pool = "{pool}"\nperiod_ms = 20\n{top}\n[policy]\n{policy}\n{tables}'
        self.path.write_text(text, encoding="utf-8")


class Running:
    """A running daemon, and the operator's side of it. `groups`: those that the last reload has allowed."""

    def __init__(self, daemon: Daemon, host: LibvirtHost, file: File, faults: Faults) -> None:
        self.daemon, self.host, self.file, self.faults = daemon, host, file, faults
        self.operations = Operations(daemon, file.path)
        self.groups: list[tuple[str | None, str | None]] = []

    async def reload(self) -> list[ConfigChange]:
        return await self.operations.reload(lambda *groups: self.groups.append(groups))

    def calls_on(self, *names: str, calls: tuple[str, ...] = CALLS) -> Callable[[], int]:
        """Counts the calls that change one of these domains, from now on."""
        self.faults.clear()  # the first fault that matches a call hides later ones
        counted = [
            self.faults.inject(call, name, times=None, arguments=lambda *given: given)
            for call in calls
            for name in names
        ]
        return lambda: sum(fault.hits for fault in counted)

    def kinds(self, kind: str) -> list[str]:
        """Why the events of this kind are there, or which key they are about."""
        return [event.why or str(event.fields["key"]) for event in self.daemon.events.since(0) if event.kind == kind]

    async def settles(self, **meant: str | None) -> None:
        await until(lambda: partitions(self.daemon) == meant, lambda: str(partitions(self.daemon)))


def reloading(tmp_path: Path, runner: asyncio.Runner, tables: str, work: Callable[[Running], Awaitable[None]]) -> None:
    """Runs *work* beside a daemon with these tables. At the end everything must be as it was found."""
    faults = Faults()
    uri = write_node(tmp_path, 5, THREE)
    file = File(tmp_path, uri)
    file.write(tables)

    async def with_daemon(host: LibvirtHost) -> None:
        async with running(load_config(file.path), host) as daemon:
            await work(Running(daemon, host, file, faults))
            faults.clear()
        for name in THREE:
            assert await pins_of(host, name) == [ALL] * 2
        assert not (tmp_path / "state" / "journal.json").exists()

    on_host(uri, runner, with_daemon, faults)


def test_a_domain_comes_and_another_goes_and_the_others_keep_their_pins(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    async def work(one: Running) -> None:
        await one.settles(a="0", b="2")
        calls = one.calls_on("a", "b")
        one.file.write(f"{ONE_EACH}[domains.c]\nmaximum = 1\n")
        (change,) = await one.reload()
        assert (change.key, change.before) == ("domains.c", None)
        await one.settles(a="0", b="2", c="4")
        assert await pins_of(one.host, "c") == [frozenset({4})] * 2
        assert calls() == 0
        calls = one.calls_on("a", "c")
        one.file.write("[domains.a]\nmaximum = 1\n[domains.b]\nmanaged = false\n[domains.c]\nmaximum = 1\n")
        await one.reload()
        await until(lambda: "b" not in {domain.name for domain in one.daemon.managed.values()})
        assert await pins_of(one.host, "b") == [ALL] * 2
        await one.settles(a="0", c="4")
        assert calls() == 0
        assert one.kinds("reloaded") == ["domains.c", "domains.b.maximum", "domains.b.managed"]

    reloading(tmp_path, loop_runner, ONE_EACH, work)


def test_bounds_and_the_pool_change_and_who_need_not_move_stays(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    async def work(one: Running) -> None:
        await one.settles(a="0", b="2")
        calls = one.calls_on("b")
        one.file.write("[domains.a]\nmaximum = 2\n[domains.b]\nmaximum = 1\n")
        await one.reload()
        await one.settles(a="0,4", b="2")
        assert calls() == 0
        assert status(one.daemon)["domains"][0]["rules"]["maximum"] == 2
        pinned = one.calls_on("b", calls=("pinVcpu",))  # its emulator moves with the reserve
        one.file.write("[domains.a]\nmaximum = 2\n[domains.b]\nmaximum = 1\n", pool="2,4")
        await one.reload()
        await one.settles(a="4", b="2")
        assert (await pins_of(one.host, "a"), await pins_of(one.host, "b")) == (
            [frozenset({4})] * 2,
            [frozenset({2})] * 2,
        )
        assert status(one.daemon)["pool"] == "2,4" and 0 in one.daemon.reserve
        one.file.write("[domains.a]\nmaximum = 2\n[domains.b]\nmaximum = 1\n", pool="0,2,4")
        await one.reload()
        await one.settles(a="0,4", b="2")
        assert pinned() == 0

    reloading(tmp_path, loop_runner, ONE_EACH, work)


WRONG = {
    "not TOML": (lambda file: file.path.write_text("pool = ["), ["not TOML"]),
    "gone": (lambda file: file.path.unlink(), ["No such file"]),
    "an unknown key": (lambda file: file.write(ONE_EACH, top="colour = 1"), ["colour"]),
    "a restart": (
        lambda file: file.write("[domains.c]", top='metrics_address = "127.0.0.1:9"\ncall_timeout_ms = 10'),
        ["metrics_address, call_timeout_ms", "restart"],
    ),
    "no such domain": (lambda file: file.write("[domains.nobody]\n[domains.c]"), ["domain nobody", "virsh list"]),
    "no such CPU": (lambda file: file.write("[domains.c]", pool="0,99"), ["pool", "CPU 99", "not online"]),
    "no such policy": (lambda file: file.write("[domains.c]", policy="name = 'best'"), ["best"]),
    "a policy without its option": (lambda file: file.write("[domains.c]", policy="name = 'static'"), ["allocations"]),
}


def test_what_is_wrong_changes_nothing(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    async def work(one: Running) -> None:
        await one.settles(a="0", b="2")
        config, since, calls = one.daemon.config, one.daemon.configured_at, one.calls_on("a", "b", "c")
        for damage, words in WRONG.values():
            damage(one.file)
            with pytest.raises(UsageError) as refused:
                await one.reload()
            for word in words:
                assert word in str(refused.value) and word in str(one.kinds("refused")[-1])
        one.file.write(f"{ONE_EACH}[domains.c]")
        one.faults.inject("lookupByName", error=libvirt.VIR_ERR_INTERNAL_ERROR)
        with pytest.raises(VscafError) as failed:
            await one.reload()
        assert not isinstance(failed.value, UsageError), "the file is not wrong"
        assert len(one.kinds("refused")) == len(WRONG) + 1 and one.kinds("reloaded") == []
        assert one.daemon.config is config and one.daemon.configured_at == since and not one.groups
        for _ in range(5):
            one.daemon.wake()
            await asyncio.sleep(0.02)
        assert calls() == 0 and partitions(one.daemon) == {"a": "0", "b": "2"}
        await one.reload()
        await until(lambda: partitions(one.daemon).get("c") == "4")

    reloading(tmp_path, loop_runner, ONE_EACH, work)


def test_who_may_ask_is_refused_before_anything_else_changes(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    async def work(one: Running) -> None:
        def refuse(*groups: str | None) -> None:
            assert groups == ("readers", None)
            raise UsageError("no such group")

        await one.settles(a="0", b="2")
        one.file.write("[domains.a]", pool="2,4", top='control_read_group = "readers"')
        with pytest.raises(UsageError, match="no such group"):
            await one.operations.reload(refuse)
        assert one.daemon.pool_cpus == {0, 2, 4} and one.daemon.config.control_read_group is None
        await one.reload()
        assert one.groups == [("readers", None)] and one.daemon.config.control_read_group == "readers"
        await until(lambda: partitions(one.daemon) == {"a": "2,4"})

    reloading(tmp_path, loop_runner, ONE_EACH, work)


def test_what_is_not_changed_is_not_checked_again(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    """A pCPU of the pool has gone offline, and a domain is not defined any more."""

    async def work(one: Running) -> None:
        await one.settles(a="0", b="2")
        one.faults.inject("getCPUMap", times=None, result=lambda real: (real[0], [*real[1][:4], False], real[2] - 1))
        await until(lambda: one.daemon.pool_cpus == {0, 2})
        one.faults.inject("lookupByName", error=libvirt.VIR_ERR_NO_DOMAIN)
        one.file.write(ONE_EACH, top="deadline_ms = 100\nexploration_percent = 0")
        assert [change.key for change in await one.reload()] == ["deadline_ms", "exploration_percent"]
        assert one.daemon.pool_cpus == {0, 2}
        assert await one.reload() == [] and one.kinds("reloaded")[-1] == "the configuration has not changed"
        one.file.write(ONE_EACH, pool="0,4")
        with pytest.raises(UsageError, match="CPU 4 is not online"):
            await one.reload()

    reloading(tmp_path, loop_runner, ONE_EACH, work)


def test_a_policy_set_by_hand_stays_until_the_file_names_another(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    async def work(one: Running) -> None:
        await one.settles(a="0", b="2")
        await one.operations.set_policy("fair", {})
        one.file.write(ONE_EACH, top="deadline_ms = 100")
        await one.reload()
        assert one.daemon.policy_name == "fair"
        one.file.write(ONE_EACH, policy="name = 'fair'")  # the operator has written it down
        await one.reload()
        assert one.daemon.policy_name == "fair" and one.daemon.policy_previous == "equipartition"
        one.file.write(ONE_EACH, policy="name = 'static'\noptions = { allocations = { a = 1 } }")
        changes = [(change.key, change.before, change.after) for change in await one.reload()]
        assert changes == [
            ("policy.name", "fair", "static"),
            ("policy.options.allocations", None, '{"a": 1}'),
        ]
        assert (one.daemon.policy_name, one.daemon.policy_options) == ("static", {"allocations": {"a": 1}})
        assert await one.operations.rollback_policy() == "fair"

    reloading(tmp_path, loop_runner, ONE_EACH, work)


def guard_of(pid: int) -> int:
    """The guard of the daemon *pid*."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = process.joinpath("stat").read_text("ascii").rpartition(")")[2].split()[1]
            if int(parent) == pid and b"vscaf.recovery.guard" in process.joinpath("cmdline").read_bytes():
                return int(process.name)
        except OSError:  # it has ended meanwhile
            continue
    raise AssertionError("the daemon has no guard")


def rewrite(site: Site, old: str, new: str) -> None:
    text = site.config.read_text(encoding="utf-8")
    assert old in text
    site.config.write_text(text.replace(old, new), encoding="utf-8")


def rules(site: Site) -> dict[str, tuple[int, int | None]]:
    return {
        one["name"]: (one["rules"]["minimum"], one["rules"]["maximum"])
        for one in site.status()["domains"]
        if one["state"] != "not running"
    }


def test_the_command_says_what_has_changed_or_what_is_wrong(tmp_path: Path) -> None:
    with a_site(tmp_path, CONFIG) as site:
        soon(lambda: set(site.states().values()) == {"contained"})
        since = site.status()["configured_at"]
        done = site.run("reload")
        assert (done.exit_code, done.stdout) == (0, "nothing to change: the daemon uses this configuration already\n")
        rewrite(site, "[domains.a]\n", "[domains.a]\nmaximum = 1\n")
        rewrite(site, "period_ms = 20", "period_ms = 30")
        done = site.run("reload")
        assert (done.exit_code, done.stdout) == (0, "period_ms: 20 -> 30\ndomains.a.maximum: - -> 1\n")
        assert rules(site)["a"] == (1, 1) and site.status()["configured_at"] > since
        rewrite(site, "pool = ", "pools = ")
        for find, where in (("--config", "vscaf.toml"), ("--socket", "vscaf.toml")):
            done = site.run("reload", find=find)
            assert (done.exit_code, done.stdout) == (2, "") and done.stderr.count("\n") == 1
            assert where in done.stderr and "pools" in done.stderr
        rewrite(site, "pools = ", "pool = ")
        rewrite(site, "control.sock", "other.sock")
        done = site.run("reload", find="--socket")
        assert done.exit_code == 2 and "control_socket: only a restart can change this" in done.stderr
        done = site.run("reload")
        assert done.exit_code == 1 and "If control_socket was changed, restart the daemon" in done.stderr
        log = (tmp_path / "log").read_text(encoding="utf-8")
        assert "INFO event=reloaded" in log and "key=period_ms" in log and "WARNING event=refused" in log


def test_a_hangup_reloads_and_leaves_the_guard_alone(tmp_path: Path) -> None:
    """The signal goes to all processes of the service, as with `systemctl kill`."""
    with a_site(tmp_path, CONFIG) as site:
        soon(lambda: set(site.states().values()) == {"contained"})
        guard = guard_of(site.process.pid)
        soon(lambda: signal.SIGHUP in ignored(guard))  # once it has begun

        def hang_up() -> None:
            for pid in (guard, site.process.pid):
                os.kill(pid, signal.SIGHUP)

        def events(kind: str) -> list[str]:
            lines = map(json.loads, site.run("events", "--json", find="--socket").stdout.splitlines())
            return [event["why"] or event["fields"]["key"] for event in lines if event["kind"] == kind]

        rewrite(site, "[domains.a]\n", "[domains.a]\nmaximum = 1\n")
        hang_up()
        soon(lambda: events("reloaded") == ["domains.a.maximum"])
        assert rules(site) == {"a": (1, 1), "b": (1, 2)}
        rewrite(site, "pool = ", "pools = ")
        hang_up()
        soon(lambda: any("configuration not reloaded, nothing was changed" in why for why in events("refused")))
        assert site.process.poll() is None and alive(guard) and guard_of(site.process.pid) == guard
        site.process.send_signal(signal.SIGTERM)
        assert site.process.wait(HANG_S) == 0
