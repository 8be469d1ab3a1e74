"""Commands as workloads, and patterns for progress: how they are written."""

import subprocess

import pytest
from vscaf.bench.workloads.commands import commands, progress_patterns
from vscaf.errors import UsageError


def test_a_command_runs_whole_behind_a_launcher():
    (one,) = commands(['two-steps=echo "it\'s" >&2; x=1 && echo $x | cat'])
    assert one.name == "two-steps"
    assert not one.npb
    done = subprocess.run(["sh", "-c", f"exec env {one.command}"], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("1\n", "it's\n")


def test_a_command_is_judged_by_its_exit_status():
    (one,) = commands(["sort=sort numbers"])
    assert one.verified(0, "")
    assert one.verified(0, " Verification = UNSUCCESSFUL\n")  # means nothing here
    assert not one.verified(1, "")


@pytest.mark.parametrize("text", ["sort", "=sort", "sort=", "a+b=sort", "a,b=sort", "-a=sort", "a b=sort"])
def test_a_wrong_command_is_refused_with_what_is_right(text):
    with pytest.raises(UsageError, match=f"--command {text.replace('+', '.')}: "):
        commands([text])


def test_progress_is_a_regular_expression_with_a_group():
    assert progress_patterns([r"a=^step (\d+)=", "b=(x)"])["a"].search("step 12=")[1] == "12"
    for text, reason in (("a=step", "in parentheses"), ("a=(", "not a regular expression"), ("a", "give it as in")):
        with pytest.raises(UsageError, match=reason):
            progress_patterns([text])
    with pytest.raises(UsageError, match="twice"):
        progress_patterns(["a=(1)", "a=(2)"])
