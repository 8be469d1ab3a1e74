"""The tutorial of the Debian packages as a whole: its commands in its order, on a minimal host with two Debian guests.

For `make check-tutorial`. Needs root, debootstrap, Debian's mirror and PyPI. The host has two CPUs and no systemd, so
numbers are smaller than in the tutorial, and the daemon starts without a service. `-s` shows how long each step takes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT
from roots import debian
from site_lab import HANG_S, Site, a_site, domains, wait
from vscaf.lab.polling import until

SUITE = "trixie"
PAGE = "docs/tutorial/packages.md"
GUESTS = ("cfd", "chemistry")
# What the tutorial expects of its host.
PREMISES = "libvirt-clients"
# The directory of the packages in each guest.
IN_GUEST = "packages"
# This host is smaller than the tutorial's, and its guests are emulated.
SMALLER = (("2-7", "0-1"), ("--maximum 6", "--maximum 2"), ("cg.B", "cg.W"), ("ep.B", "ep.W"))
pytestmark = [
    pytest.mark.skipif("VSCAF_TUTORIAL" not in os.environ, reason="only make check-tutorial sets it"),
    pytest.mark.timeout(3 * HANG_S),
]


def smaller(text: str) -> str:
    for large, small in SMALLER:
        text = text.replace(large, small)
    return text


def steps() -> dict[int, list[str]]:
    """The blocks of commands of each numbered step."""
    sections = re.split(r"^## ", (ROOT / PAGE).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {
        int(number[0]): [smaller(text) for text in re.findall(r"^```sh\n(.*?)^```", section, re.DOTALL | re.MULTILINE)]
        for section in sections
        if (number := re.match(r"\d+", section))
    }


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A minimal Debian that has this libvirtd, and a clone in /root/vscaf."""
    lower = debian(ROOT / "build" / "ansible-roots", SUITE)
    # On a disk, because it gets some GB.
    with (
        tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="tutorial-") as scratch,
        a_site(Path(scratch), dict.fromkeys(GUESTS, SUITE), lower) as site,
    ):
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, site.host / "root/vscaf"], check=True)
        on_host(site, "apt-get update && apt-get install -y --no-install-recommends " + PREMISES)
        yield site


def on_host(site: Site, commands: str) -> str:
    """Runs a block there as root in the clone, until a command fails; its output."""
    done = subprocess.run(
        ["chroot", site.host, "env", "-C", "/root/vscaf", "HOME=/root", "DEBIAN_FRONTEND=noninteractive", "sh", "-e"],
        input=commands,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    print(f"host$ {commands}{done.stdout}{done.stderr}")
    assert done.returncode == 0, f"{commands}: {done.stdout}{done.stderr}"
    return done.stdout


def in_guest(site: Site, name: str, commands: str) -> str:
    """The same in a guest, in the directory of the packages."""
    command = f"sudo env DEBIAN_FRONTEND=noninteractive sh -e <<'END'\ncd {IN_GUEST}\n{commands}\nEND"
    output = site.guests[name].output(command)
    print(f"{name}$ {commands}{output}")
    return output


def all_are_shut_off(site: Site) -> bool:
    """What the tutorial says to wait for, in the table of `virsh list --all`."""
    rows = {" ".join(line.split()[1:]) for line in site.run("virsh", "list", "--all").splitlines()}
    return {f"{name} shut off" for name in GUESTS} <= rows


def test_from_nothing_to_a_partitioned_pair(site: Site) -> None:
    begun = time.monotonic()

    def step(number: int, expected: int) -> list[str]:
        """The blocks of a step. Fails if the tutorial has others than this test knows."""
        print(f"step {number}, after {(time.monotonic() - begun) / 60:.1f} min", file=sys.stderr)
        found = steps()[number]
        assert len(found) == expected, found
        return found

    for number, expected in ((1, 1), (2, 1), (3, 3), (4, 3)):
        for block in step(number, expected):
            if "virsh start" in block:
                until(lambda: all_are_shut_off(site), "both guests are shut off", HANG_S, poll_s=2)
            on_host(site, block)

    service, watch = step(5, 2)
    assert service == "systemctl enable --now vscaf\n"
    site.start_daemon()
    until((site.host / "run/vscaf/control.sock").exists, "the daemon answers")
    wait(site, lambda all_: set(all_) == set(GUESTS))
    on_host(site, watch.replace("vscaf doctor", "vscaf doctor || true"))  # something is still missing

    for guest in site.guests.values():
        guest.wait()
        guest.output(f"mkdir {IN_GUEST}")
        for package in sorted((site.host / "root/vscaf/build/packages").glob("*.deb")):
            with package.open("rb") as content:
                guest.output(f"cat > {IN_GUEST}/{package.name}", content)
    for block in step(6, 2):
        for name in GUESTS:
            output = in_guest(site, name, block)
            assert "--check" not in block or output.splitlines()[-1] == "Everything that is needed is there."
    wait(site, lambda all_: {one.get("agent") for one in all_.values()} == {"connected"})

    first, second, watch = step(7, 3)
    endless = "setsid sh -c 'while {}; do :; done' > program.log 2>&1 < /dev/null & echo $! > program.pid"
    in_guest(site, "cfd", endless.format(first.strip()))
    wait(site, lambda all_: all_["cfd"].get("allocation") == 2)
    in_guest(site, "chemistry", endless.format(second.strip()))
    wait(
        site,
        lambda all_: all(one["state"] == "cooperating" and one.get("allocation") == 1 for one in all_.values()),
    )
    assert {one["partition"] for one in domains(site).values()} == {"0", "1"}
    explained = on_host(
        site, watch.replace("vscaf events --follow", "timeout --signal=INT 5 vscaf events --follow || :")
    )
    assert "cfd" in explained
    in_guest(site, "chemistry", "kill -- -$(cat program.pid)")
    wait(site, lambda all_: all_["cfd"].get("allocation") == 2)

    (block,) = step(8, 1)
    given_back = on_host(site, block)
    assert all(f"{name}: as it was found" in given_back for name in GUESTS)
    assert site.daemon is not None and site.daemon.wait(60) == 0
    print(f"all, after {(time.monotonic() - begun) / 60:.1f} min", file=sys.stderr)
