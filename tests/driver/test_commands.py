"""Every command of an operator against a real daemon in its own process, on libvirt's test driver."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from ports import reserved_port
from vscaf.cli.main import main
from vscaf.control.messages import Status
from vscaf.lab.polling import HANG_S, until

from .node import write_node

CONFIG = """
uri = "{uri}"
pool = "0,2"
state_directory = "{directory}/state"
control_socket = "{directory}/control.sock"
metrics_address = "127.0.0.1:{port}"
period_ms = 20
deadline_ms = 50
[policy]
name = "equipartition"
[domains.a]
[domains.b]
minimum = 1
maximum = 2
weight = 2.0
"""


@dataclass
class Site:
    """A running daemon and its configuration."""

    directory: Path
    port: int
    process: subprocess.Popen[str]

    @property
    def config(self) -> Path:
        return self.directory / "vscaf.toml"

    def run(self, *arguments: str, find: str = "--config") -> Result:
        """Runs `vscaf WORDS`. It finds the daemon by the option *find*: its configuration or its socket."""
        where = {"--config": self.config, "--socket": self.directory / "control.sock"}[find]
        return CliRunner().invoke(main, [*arguments, find, str(where)])

    def status(self) -> dict[str, Any]:
        """The answer of `vscaf status --json`."""
        done = self.run("status", "--json")
        assert done.exit_code == 0, done.output
        state: dict[str, Any] = json.loads(done.stdout)
        return state

    def states(self) -> dict[str, str]:
        return {one["name"]: one["state"] for one in self.status()["domains"]}

    @contextmanager
    def follower(self, option: str) -> Iterator[subprocess.Popen[str]]:
        """`vscaf events OPTION`, once it has shown the first event."""
        process = subprocess.Popen(
            [sys.executable, "-m", "vscaf", "events", option, "--config", str(self.config)],
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("1 ")
            yield process
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with a_site(tmp_path, CONFIG) as site:
        until(lambda: set(site.states().values()) == {"contained"})
        yield site


@contextmanager
def a_site(tmp_path: Path, config: str, change: Callable[[str], str] = lambda xml: xml) -> Iterator[Site]:
    """A daemon that answers. *change* may change the XML of its two domains."""
    uri = write_node(tmp_path, 4, {"a": (2, 2), "b": (2, 2)})
    node = tmp_path / "node.xml"
    node.write_text(change(node.read_text(encoding="utf-8")), encoding="utf-8")
    with reserved_port() as port:
        (tmp_path / "vscaf.toml").write_text(config.format(uri=uri, directory=tmp_path, port=port), encoding="utf-8")
        with (tmp_path / "log").open("w", encoding="utf-8") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "vscaf", "daemon", "--config", str(tmp_path / "vscaf.toml")],
                text=True,
                stderr=log,
            )
        site = Site(tmp_path, port, process)
        try:
            until((tmp_path / "control.sock").exists)
            yield site
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()


def test_status_policies_and_events(site: Site) -> None:
    state = site.status()
    assert msgspec.to_builtins(msgspec.convert(state, Status)) == state, "the status does not match the schema"
    assert {one["partition"] for one in state["domains"]} == {"0", "2"}
    assert state["domains"][1]["rules"]["maximum"] == 2 and state["reserve"] == "4"
    shown = site.run("status", find="--socket").stdout
    assert "policy equipartition, pool 0,2" in shown and "contained" in shown and "weight 2" in shown

    listed = site.run("policy", "list").stdout.splitlines()
    assert [line.split()[1] for line in listed if line.strip().startswith("*")] == ["equipartition"]
    assert any(line.split()[0] == "max-speedup" for line in listed)

    chosen = site.run("policy", "set", "static", "--option", "allocations.a=1", "--option", "allocations.b = 1")
    assert chosen.exit_code == 0, chosen.output
    assert chosen.stdout.startswith('policy static\n  allocations = {"a": 1, "b": 1}\n')
    assert site.status()["policy_options"] == {"allocations": {"a": 1, "b": 1}}
    shown = site.run("policy", "show").stdout
    assert shown.startswith("policy static\n") and "before it: equipartition" in shown
    back = site.run("policy", "rollback")
    assert (back.exit_code, back.stdout) == (0, "policy equipartition is in use again\n")
    assert site.status()["policy"] == "equipartition"

    lines = [json.loads(line) for line in site.run("events", "--json").stdout.splitlines()]
    assert [event["number"] for event in lines] == list(range(1, len(lines) + 1))
    changes = [(event["from"], event["to"]) for event in lines if event["kind"] == "policy"]
    assert changes == [("equipartition", "static"), ("static", "equipartition")]
    allocations = [event for event in lines if event["kind"] == "allocation"]
    assert {event["domain"] for event in allocations} == {"a", "b"} and all(event["why"] for event in allocations)
    last = site.run("events", "--since", str(len(lines) - 1)).stdout
    assert last.startswith(f"{len(lines)} ") and " policy static -> equipartition" in last
    log = (site.directory / "log").read_text(encoding="utf-8")
    assert f"event=policy number={len(lines)} from=static to=equipartition" in log


def test_every_answer_as_json(site: Site) -> None:
    def answer(*arguments: str) -> Any:
        done = site.run(*arguments, "--json")
        assert (done.exit_code, done.stderr) == (0, ""), done.output
        return json.loads(done.stdout)

    assert [one["name"] for one in answer("policy", "list") if one["in_use"]] == ["equipartition"]
    assert all(one["summary"] for one in answer("policy", "list"))
    assert answer("policy", "set", "fair") == {"name": "fair", "options": {}}
    shown = answer("policy", "show")
    assert (shown["current"]["name"], shown["previous"]) == ("fair", "equipartition")
    assert answer("policy", "rollback") == {"name": "equipartition"}
    assert answer("reload") == {"changes": []}
    assert answer("release", "b") == {"domains": ["b"], "by_daemon": True}
    assert answer("manage") == {"domains": ["b"]}
    assert {one["name"] for one in answer("status")["domains"]} == {"a", "b"}
    assert set(answer("off")["domains"]) <= {"a", "b"}
    assert site.process.wait(HANG_S) == 0
    assert answer("off") == {"domains": [], "by_daemon": False}


def test_domains_are_completed(site: Site) -> None:
    words = f"vscaf release --config {site.directory}/vscaf.toml "
    environment = {"COMP_WORDS": words, "COMP_CWORD": "4", "_VSCAF_COMPLETE": "bash_complete"}
    done = CliRunner().invoke(main, prog_name="vscaf", env=environment)
    assert done.stdout.split() == ["plain,a", "plain,b"]


def test_the_service_manager_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start, a reload, and a hand-over, which puts nothing back."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"{tmp_path}/notify")
        manager.settimeout(HANG_S)
        monkeypatch.setenv("NOTIFY_SOCKET", f"{tmp_path}/notify")
        status = b"STATUS=pool 0,2, policy equipartition"
        with a_site(tmp_path, CONFIG) as site:
            assert manager.recv(256) == b"READY=1\n" + status
            assert site.run("reload").exit_code == 0
            assert manager.recv(256).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
            assert manager.recv(256) == b"READY=1\n" + status
            site.process.send_signal(signal.SIGUSR1)
            assert manager.recv(256) == b"STOPPING=1"
            assert site.process.wait(HANG_S) == os.EX_TEMPFAIL
    log = (tmp_path / "log").read_text(encoding="utf-8")
    assert "nothing was put back" in log and "event=given-back" not in log


def test_what_is_refused_changes_nothing_and_is_one_line(site: Site) -> None:
    before = site.status()
    for arguments, message, status in (
        (["policy", "set", "best"], ["best", "equipartition"], 2),
        (["policy", "set", "static"], ["allocations", "set it"], 2),
        (["policy", "set", "static", "--option", "allocations"], ["--option allocations", "KEY=VALUE"], 2),
        (["policy", "set", "static", "--option", "favourite=cfd"], ["--option favourite=cfd", "quotes"], 2),
        (["policy", "rollback"], ["none to go back to"], 2),
        (["release", "nobody"], ["domain nobody"], 2),
        (["manage", "nobody"], ["domain nobody"], 2),
    ):
        done = site.run(*arguments)
        assert (done.exit_code, done.stdout) == (status, ""), arguments
        assert done.stderr.startswith("vscaf: ") and done.stderr.count("\n") == 1, done.stderr
        for word in message:
            assert word in done.stderr
    after = site.status()
    assert (after["policy"], after["policy_previous"]) == (before["policy"], None)
    assert site.states() == {"a": "contained", "b": "contained"}


def test_release_manage_and_off(site: Site) -> None:
    done = site.run("release", "b")
    assert (done.exit_code, done.stdout) == (0, "b: as it was found; left alone until `vscaf manage b`\n")
    (b,) = [one for one in site.status()["domains"] if one["name"] == "b"]
    assert (b["state"], b["partition"], b["allocation"], b["why"]) == ("released", None, None, "by request")
    assert "b is released: by request" in site.run("status").stdout
    again = site.run("release", "b")
    assert again.exit_code == 0 and again.stdout == "b: is left alone already: `vscaf status` says why\n"
    assert site.run("manage").stdout == "b: managed again\n"
    assert site.run("manage").stdout.startswith("nothing to manage again")
    until(lambda: site.states() == {"a": "contained", "b": "contained"})
    with site.follower("--follow") as follower:
        off = site.run("off")
        assert (off.exit_code, off.stdout) == (0, "a: as it was found\nb: as it was found\nthe daemon has ended\n")
        assert site.process.wait(HANG_S) == 0
        rest, errors = follower.communicate(timeout=HANG_S)
        assert errors == "" and follower.returncode == 0
        assert " stopped" in rest.splitlines()[-1], "a follower must see the end"
    assert not (site.directory / "control.sock").exists()


def test_metrics_on_both_doors(site: Site) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{site.port}/metrics", timeout=HANG_S) as answer:
        text = answer.read().decode()
    uuid = next(one["uuid"] for one in site.status()["domains"] if one["name"] == "a")
    assert f'vscaf_domain_allocation_cpus{{domain="a",uuid="{uuid}"}} 1.0' in text
    assert "vscaf_domain_steal_seconds_total{" not in text, "libvirt's test driver reports no delay"
    assert 'vscaf_events_total{kind="started"} 1.0' in text


def second_daemon(config: Path) -> subprocess.CompletedProcess[str]:
    """Runs a daemon that is expected to end by itself."""
    return subprocess.run(
        [sys.executable, "-m", "vscaf", "daemon", "--config", str(config)],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )


def test_a_second_daemon_with_the_same_metrics_address_changes_nothing(site: Site) -> None:
    other = site.directory / "other.toml"
    text = site.config.read_text(encoding="utf-8").replace("/state", "/other").replace("/control.sock", "/other.sock")
    other.write_text(text, encoding="utf-8")
    done = second_daemon(other)
    assert done.returncode == 2
    warning, error = done.stderr.splitlines()
    assert "policy equipartition ignores weights" in warning and "metrics_address" in error and "in use" in error
    assert not (site.directory / "other").exists() and not (site.directory / "other.sock").exists()


def test_a_second_daemon_on_the_same_libvirt_changes_nothing_whatever_its_directories(site: Site) -> None:
    other = site.directory / "other.toml"
    text = site.config.read_text(encoding="utf-8").replace("/state", "/other").replace("/control.sock", "/other.sock")
    with reserved_port() as port:
        other.write_text(text.replace(f":{site.port}", f":{port}"), encoding="utf-8")
        done = second_daemon(other)
    assert done.returncode == 2
    warning, error = done.stderr.splitlines()
    assert "policy equipartition ignores weights" in warning
    assert "another vscaf daemon" in error and "libvirt at test:" in error
    assert not (site.directory / "other").exists() and not (site.directory / "other.sock").exists()


def test_a_daemon_that_is_killed_leaves_nobody_suspended(tmp_path: Path) -> None:
    """In the test driver the guard's own connection has another copy of the domain, which runs. So only the journal
    shows that the guard has acted."""
    gang = CONFIG.replace('name = "equipartition"', 'name = "gang"\noptions = {{slice_s = 1e9}}')
    with a_site(tmp_path, gang) as site:
        journal = tmp_path / "state" / "journal.json"

        def suspended() -> set[str]:
            content = json.loads(journal.read_text(encoding="utf-8")) if journal.exists() else {"domains": []}
            return {one["name"] for one in content["domains"] if one["suspended"]}

        until(lambda: len(suspended()) == 1 and "suspended" in site.states().values())
        site.process.kill()
        site.process.wait()
        until(lambda: not suspended())
        assert {one["name"] for one in json.loads(journal.read_text(encoding="utf-8"))["domains"]} == {"a", "b"}


def test_an_error_that_nobody_has_thought_of_has_a_status_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a service manager starts the daemon again, but not if something could not be put back."""

    def fail(path: Path) -> None:
        raise RuntimeError("nobody has thought of this")

    monkeypatch.setattr("vscaf.cli.main.load_config", fail)
    assert CliRunner().invoke(main, ["daemon", "--config", str(tmp_path / "vscaf.toml")]).exit_code == 70


def test_a_follower_of_a_daemon_that_is_killed(site: Site) -> None:
    with site.follower("-f") as follower:
        site.process.kill()
        _, errors = follower.communicate(timeout=HANG_S)
    assert follower.returncode == 1 and errors.count("\n") == 1 and "control socket" in errors


METADATA = """<name>a</name><metadata>
<vscaf:partition xmlns:vscaf="https://vscaf.org/xmlns/partition/1" min="1" max="2" weight="3" priority="5" rest="keep"/>
</metadata>"""


def tagged(xml: str) -> str:
    return xml.replace("<name>a</name>", METADATA)


def test_a_domain_that_its_own_metadata_tag_needs_no_configuration(tmp_path: Path) -> None:
    with a_site(tmp_path, CONFIG.split("[domains.a]", maxsplit=1)[0], tagged) as site:
        until(lambda: site.states() == {"a": "contained"})  # b is not managed
        (a,) = site.status()["domains"]
        assert a["rules"] == {"minimum": 1, "maximum": 2, "weight": 3.0, "priority": 5, "rest": "keep"}
        assert "rest keep" in site.run("status").stdout


def test_what_metadata_say_counts_above_the_configuration_and_its_managed_above_them(tmp_path: Path) -> None:
    text = CONFIG.replace("[domains.a]", "[domains.a]\nweight = 9.0\nmanaged = false").replace(
        "[domains.b]", "[domains.b]\npriority = -4\nrest = 'share'"
    )
    with a_site(
        tmp_path, text, lambda xml: tagged(xml).replace("<name>b</name>", METADATA.replace(">a<", ">b<"))
    ) as site:
        until(lambda: site.states().get("b") == "contained")
        (b,) = site.status()["domains"]  # of a, which runs, it cannot say "not running"
        assert b["rules"] == {"minimum": 1, "maximum": 2, "weight": 3.0, "priority": 5, "rest": "keep"}
