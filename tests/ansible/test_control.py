"""The modules vscaf_policy and vscaf_info with a real daemon over libvirt's test driver."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Played
from daemon import CONFIG, a_daemon

Module = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("daemon")
    config = directory / "vscaf.toml"
    config.write_text(CONFIG.format(directory=directory), encoding="utf-8")
    with a_daemon(directory, config) as path:
        yield str(path)


def in_use(module: Module, control: str) -> Any:
    return module("vscaf_info", socket=control)["policies"]["current"]


def test_the_status(module: Module, control: str) -> None:
    answer = module("vscaf_info", socket=control)
    assert answer["running"] and not answer["changed"] and answer["reason"] == ""
    assert (
        [one["name"] for one in answer["domains"]] == ["test"] == [one["name"] for one in answer["status"]["domains"]]
    )
    assert answer["status"]["pool"] == "0,2"
    assert "static" in answer["policies"]["installed"]


def test_a_policy_is_set_once(module: Module, control: str) -> None:
    wanted = {"name": "static", "options": {"allocations": {"test": 1}}}
    foreseen = module("vscaf_policy", check=True, socket=control, **wanted)
    before = in_use(module, control)
    assert foreseen["changed"] and before != wanted
    first = module("vscaf_policy", socket=control, **wanted)
    assert first["changed"] and first["diff"] == foreseen["diff"] == {"before": before, "after": wanted}
    assert in_use(module, control) == wanted
    assert not module("vscaf_policy", socket=control, **wanted)["changed"]
    other = module("vscaf_policy", socket=control, name="static", options={"allocations": {"test": 2}})
    assert other["changed"] and in_use(module, control)["options"] == {"allocations": {"test": 2}}
    back = module("vscaf_policy", socket=control, name="equipartition")
    assert back["changed"] and back["previous"] == "static"
    assert in_use(module, control) == {"name": "equipartition", "options": {}}


@pytest.mark.parametrize("check", [False, True])
def test_an_unknown_policy_changes_nothing(module: Module, control: str, check: bool) -> None:
    before = in_use(module, control)
    answer = module("vscaf_policy", check=check, socket=control, name="best")
    assert answer["failed"] and "no policy is named best" in answer["msg"] and "equipartition" in answer["msg"]
    assert in_use(module, control) == before


def test_what_the_daemon_refuses_is_told_in_its_words(module: Module, control: str) -> None:
    before = in_use(module, control)
    answer = module("vscaf_policy", socket=control, name="static", options={"colour": "red"})
    assert answer["failed"] and "colour" in answer["msg"]
    assert in_use(module, control) == before


def test_no_daemon(module: Module, tmp_path: Path) -> None:
    path = str(tmp_path / "none.sock")
    answer = module("vscaf_info", socket=path)
    assert not answer["running"] and answer["domains"] == [] and path in answer["reason"]
    answer = module("vscaf_policy", socket=path, name="fair")
    assert answer["failed"] and path in answer["msg"] and "is the vscaf daemon running" in answer["msg"]
    with socket.socket(socket.AF_UNIX) as left:  # a daemon that was killed leaves its socket
        left.bind(path)
    assert not module("vscaf_info", socket=path)["running"]


def test_an_answer_that_is_none(module: Module, tmp_path: Path) -> None:
    path = tmp_path / "deaf.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(60)
        import threading  # noqa: PLC0415

        def hang_up() -> None:
            for _ in range(2):
                listener.accept()[0].close()

        thread = threading.Thread(target=hang_up, daemon=True)
        thread.start()
        for name, more in (("vscaf_info", {}), ("vscaf_policy", {"name": "fair"})):
            answer = module(name, socket=str(path), **more)
            assert answer["failed"] and "see the daemon's log" in answer["msg"]
        thread.join()


def test_in_a_playbook(play: Callable[..., Played], control: str) -> None:
    """As users run them: with Ansible's own way of sending a module and its files."""
    tasks = [
        {"name": "Set", "vscaf.vscaf.vscaf_policy": {"name": "fair", "socket": control}},
        {"name": "Read", "vscaf.vscaf.vscaf_info": {"socket": control}, "register": "read"},
        {"name": "Show", "ansible.builtin.debug": {"msg": "policy={{ read.policies.current | to_json }}"}},
    ]
    checked = play(tasks, "--check", "--diff")
    assert checked.status == 0, checked.output
    assert checked.changed == ("Set",) and '+    "name": "fair"' in checked.output
    first = play(tasks)
    assert first.changed == ("Set",) and json.dumps({"name": "fair", "options": {}})[:15] in first.output.replace(
        "\\", ""
    )
    assert play(tasks).changed == () == play(tasks, "--check").changed
