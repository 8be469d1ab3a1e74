"""In a real guest only the agent can use the channel to the host: the port belongs to root, and only one can open
it."""

from __future__ import annotations

import pytest

from .conftest import Pair

pytestmark = pytest.mark.guest

PORT = "/dev/virtio-ports/org.vscaf.agent.0"
LINE = '{"v":1,"type":"report"}'


def test_no_user_of_the_guest_can_write_to_the_port(pair: Pair) -> None:
    guest, _ = pair
    status, output = guest.run("pidof vscaf-agent && test -c " + PORT)
    assert status == 0, output
    guest.run("mkdir -p /etc; echo nobody:x:65534:65534::/:/bin/sh > /etc/passwd; echo nobody:x:65534: > /etc/group")
    become = "start-stop-daemon -S -p /tmp/none.pid -c nobody:nobody -x /bin/sh -- -c"
    status, output = guest.run(f"{become} 'id -u; id -g'")
    assert (status, output.split()) == (0, [b"65534", b"65534"]), output
    for redirection in (f"> {PORT}", f"< {PORT}", f"<> {PORT}"):
        status, output = guest.run(f"{become} 'echo {LINE!r} {redirection}' 2>&1")
        assert status != 0 and b"ermission denied" in output, (redirection, output)
    status, output = guest.run(f"{become} 'rm -f {PORT}; ln -sf /tmp/other {PORT}; rm /run/vscaf/agent.sock' 2>&1")
    assert status != 0 and guest.run(f"test -c {PORT} && test -S /run/vscaf/agent.sock")[0] == 0, output
    status, output = guest.run(f"{become} 'kill -9 $(pidof vscaf-agent)' 2>&1")
    assert status != 0 and guest.run("pidof vscaf-agent")[0] == 0, output


def test_port_that_the_agent_has_is_busy_even_for_root(pair: Pair) -> None:
    guest, _ = pair
    status, output = guest.run(f"echo {LINE!r} > {PORT}")
    assert status != 0 and b"busy" in output.lower(), output
