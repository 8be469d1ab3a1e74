"""Commands and files through a guest agent: what is said, and how it works with a real qemu-ga where there is one."""

import base64
import json
import random

import pytest
from guest_agents import QEMU_GA, StandIn, real_agent
from vscaf.bench.places.guest_agent import PIECE_BYTES, GuestAgent, answer, exec_end, exec_request, request
from vscaf.bench.places.place import Ended, PlaceError
from vscaf.lab.polling import HANG_S, until
from vscaf.lab.processes import start_time


def encoded(text):
    return base64.b64encode(text).decode()


def test_requests_are_those_of_the_protocol():
    assert json.loads(request("guest-ping")) == {"execute": "guest-ping"}
    assert json.loads(request("guest-file-write", handle=3, buf_b64="eA==")) == {
        "execute": "guest-file-write",
        "arguments": {"handle": 3, "buf-b64": "eA=="},
    }
    asked = json.loads(exec_request("echo 'ä' \"$x\""))
    assert asked["execute"] == "guest-exec"
    assert asked["arguments"]["capture-output"] is True
    assert asked["arguments"]["arg"][-1].endswith("\necho 'ä' \"$x\"")


@pytest.mark.parametrize(
    ("status", "end"),
    [
        ({"exited": False}, None),
        ({"exited": True, "exitcode": 0}, Ended(0, "")),
        ({"exited": True, "exitcode": 3, "out-data": encoded(b"out\n")}, Ended(3, "out\n")),
        ({"exited": True, "exitcode": 0, "out-data": encoded(b"a"), "err-data": encoded(b"b")}, Ended(0, "ab")),
        ({"exited": True, "signal": 9, "out-truncated": False}, Ended(137, "")),
        ({"exited": True, "exitcode": 0, "out-data": encoded(b"\xff!")}, Ended(0, "\N{REPLACEMENT CHARACTER}!")),
    ],
)
def test_the_end_of_a_command_is_decoded(status, end):
    assert exec_end(json.dumps({"return": status})) == end


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "[]",
        '{"error": {"class": "GenericError", "desc": "no"}}',
        '{"return": {}}',
        '{"return": {"exited": "yes"}}',
        '{"return": {"exited": true, "out-data": 7}}',
        '{"return": {"exited": true, "out-data": "@"}}',
    ],
)
def test_an_answer_that_is_none_is_an_error(text):
    with pytest.raises(PlaceError, match="not as expected"):
        exec_end(text)
    with pytest.raises(PlaceError, match="not as expected"):
        answer(text, int)


@pytest.fixture(
    params=[
        "stand-in",
        pytest.param("qemu-ga", marks=pytest.mark.skipif(QEMU_GA is None, reason="qemu-guest-agent is not installed")),
    ]
)
def agent(request, tmp_path):
    if request.param == "stand-in":
        yield GuestAgent(StandIn())
    else:
        with real_agent(tmp_path) as call:
            yield GuestAgent(call)


def test_a_command_runs_with_output_and_errors_together(agent):
    agent.ping()
    ended = agent.start("echo one; echo two >&2; echo three; exit 7").wait(HANG_S)
    assert ended == Ended(7, "one\ntwo\nthree\n")


def test_a_command_that_is_not_there(agent):
    ended = agent.start("no-such-program").wait(HANG_S)
    assert ended.status == 127 and "no-such-program" in ended.output


def test_two_commands_at_a_time(agent, tmp_path):
    first = agent.start(f"until [ -e {tmp_path}/go ]; do sleep 0.01; done; echo first")
    assert agent.start(f"touch {tmp_path}/go; echo second").wait(HANG_S).output == "second\n"
    assert first.wait(HANG_S).output == "first\n"
    assert first.wait(0.0).output == "first\n"  # it is known


def test_kill_ends_all_that_was_started(agent, tmp_path):
    child = tmp_path / "child"
    started = agent.start(f"sleep 1000 & echo $! > {child}; wait")
    until(lambda: child.exists() and child.read_text().strip())
    with pytest.raises(TimeoutError):
        started.wait(0.0)
    started.kill()
    assert started.wait(HANG_S).status == 128 + 9
    until(lambda: start_time(int(child.read_text())) is None)
    agent.ping()  # the agent itself is not ended


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES])
def test_a_file_arrives_in_pieces(agent, tmp_path, size):
    content = random.Random(size).randbytes(size)
    agent.write(str(tmp_path / "file"), content)
    assert (tmp_path / "file").read_bytes() == content


def test_a_short_write_goes_on_where_it_ended(tmp_path):
    stand_in = StandIn()

    def call(text):
        asked = json.loads(text)
        if asked["execute"] == "guest-file-write":
            whole = base64.b64decode(asked["arguments"]["buf-b64"])
            asked["arguments"]["buf-b64"] = encoded(whole[: max(1, len(whole) // 2)])
        return stand_in(json.dumps(asked))

    GuestAgent(call).write(str(tmp_path / "file"), b"0123456789" * 10)
    assert (tmp_path / "file").read_bytes() == b"0123456789" * 10
