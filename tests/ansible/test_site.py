"""The playbooks site and uninstall, and the role bench, with two guests: from machines without vscaf to guests that
share CPUs, and back.

For `make check-ansible-site`. Needs root, debootstrap, Debian's mirror and PyPI. The Makefile starts it in a mount
namespace of its own.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import npb_tree
import pytest
from conftest import Played
from guests import USER, DebianGuest
from installed import SCRIPT, different, state
from site_lab import HANG_S, Site, a_site, domains, wait
from vscaf.lab.polling import until

pytestmark = [
    pytest.mark.skipif("VSCAF_ANSIBLE_SITE" not in os.environ, reason="only make check-ansible-site sets it"),
    pytest.mark.timeout(3 * HANG_S),
]
# A parallel program that lasts until it is killed.
PROGRAM = """
int main(void) {
    static int numbers[1 << 16];
    for (;;)
        #pragma omp parallel for
        for (int i = 0; i < 1 << 16; i++)
            numbers[i] = numbers[i] * 1664525 + 1013904223;
}
"""
Play = Callable[..., Played]
BENCH = [
    {
        "name": "Bench",
        "ansible.builtin.include_role": {"name": "vscaf.vscaf.bench"},
        "when": "'vscaf_hosts' in group_names",
    }
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with a_site(tmp_path_factory.mktemp("site")) as site:
        yield site


def everything(site: Site) -> Mapping[str, bytes]:
    """What uninstall must leave as it was, of the host, the guests and their domains."""
    found = dict(state(site.host))
    for name, guest in site.guests.items():
        found |= {f"{name}: {line}": b"" for line in guest.output(f"sudo sh -c {shlex.quote(SCRIPT)}").splitlines()}
        found[f"{name}: dumpxml --inactive"] = guest.inactive_xml.encode()
    return found


def bench_variables(site: Site, directory: Path) -> dict[str, Any]:
    """Those of a bench of the guests with a program that is built from an archive like NPB's. The host reaches root of
    the guests by SSH."""
    ssh = site.host / "root/.ssh"
    ssh.mkdir(mode=0o700, exist_ok=True)
    for name, guest in site.guests.items():
        guest.output(f"sudo install -D -m 600 /home/{USER}/.ssh/authorized_keys /root/.ssh/authorized_keys")
        shutil.copy(guest.key, ssh / name)
    (ssh / "config").write_text("".join(map(ssh_config, site.guests.items())), encoding="utf-8")
    tree = npb_tree.npb_tree(directory / "NPB3.4.2", "3.4", {"CG": npb_tree.FORTRAN_PROGRAM})
    return {
        "vscaf_bench_domains": list(site.guests),
        "vscaf_bench_ssh": {name: f"root@{name}" for name in site.guests},
        "vscaf_bench_npb_archive": str(npb_tree.pack(tree, directory / "NPB3.4.2.tar.gz")),
        "vscaf_bench_npb_class": "S",
        "vscaf_bench_arrangements": ["unmanaged", "static", "max-speedup-fitted"],
        "vscaf_bench_quick": True,
        "vscaf_bench_service": "none",
        "vscaf_bench_fetch_to": str(directory / "fetched"),
    }


def ssh_config(named: tuple[str, DebianGuest]) -> str:
    """How ssh finds a guest by its name."""
    name, guest = named
    return (
        f"Host {name}\n HostName 127.0.0.1\n Port {guest.port}\n IdentityFile ~/.ssh/{name}\n"
        " StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n LogLevel ERROR\n"
    )


def test_from_nothing_to_two_guests_that_share_and_back(play: Play, site: Site, archive: Path, tmp_path: Path) -> None:
    shutil.copy(archive, tmp_path)  # beside the inventory

    def run(what: str | list[dict[str, Any]], *options: str, **variables: Any) -> Played:
        done = play(what, *options, variables=variables, inventory=site.inventory, hang_s=HANG_S)
        print(done.output)
        assert done.status == 0, done.output
        return done

    before = everything(site)
    assert run("site.yml", "--check", "--diff").changed
    assert different(before, everything(site)) == {}, "check mode has changed something"

    run("site.yml")
    measured = bench_variables(site, tmp_path)
    assert "Run pairs of programs" in run(BENCH, **measured).changed
    results = json.loads((tmp_path / "fetched/here/results.json").read_text(encoding="utf-8"))
    (pair,) = results["figures"]["groups"]
    kinds = {one["arrangement"]: one["verified"] for one in pair["arrangements"]}
    assert kinds == dict.fromkeys(measured["vscaf_bench_arrangements"], True)
    assert run(BENCH, **measured).changed == ()

    site.start_daemon()
    until((site.host / "run/vscaf/control.sock").exists, "the daemon answers")
    wait(
        site,
        lambda all_: {one.get("agent") for one in all_.values()} == {"connected"} and set(all_) == set(site.guests),
    )

    for guest in site.guests.values():
        guest.output(f"cat > program.c <<'END'\n{PROGRAM}\nEND\ngcc -O2 -fopenmp -o program program.c")
        guest.output("nohup vscaf-run ./program > program.log 2>&1 < /dev/null & echo $! > program.pid")
    wait(site, lambda all_: all(one["state"] == "cooperating" and one.get("allocation") == 1 for one in all_.values()))
    partitions = {one["partition"] for one in domains(site).values()}
    assert partitions == {"0", "1"}

    assert run("site.yml").changed == ()
    assert run("site.yml", "--check").changed == ()

    installed = everything(site)
    assert run("uninstall.yml", "--check").changed
    assert different(installed, everything(site)) == {}, "check mode has changed something"
    run("uninstall.yml")  # while the programs compute, each on one of its guest's two CPUs
    assert site.daemon is not None and site.daemon.wait(60) == 0
    for guest in site.guests.values():
        assert guest.output("cat /sys/devices/system/cpu/online").strip() == "0-1"
        guest.output("kill $(cat program.pid); rm program*")
    assert different(before, everything(site)) == {}
    assert run("uninstall.yml").changed == ()
