"""What one execution's output says: whether it was right, and how far it was when."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vscaf.bench.workloads.shipped import shipped
from vscaf.bench.workloads.workload import MARKS_MAX, Workload
from vscaf.errors import UsageError

STEPS = Workload("steps", "run", progress=re.compile(r"^step +([-.\d,]*)"))
AMOUNTS = st.lists(st.integers(-5, 100), max_size=30)


@pytest.mark.parametrize(
    ("output", "right"),
    [
        (" Verification    =               SUCCESSFUL\n", True),
        (" Verification    =             UNSUCCESSFUL\n", False),
        (" Verification    =            NOT PERFORMED\n", False),
        (" Verification = SUCCESSFUL\n Verification = UNSUCCESSFUL\n", False),
        ("no block\n", False),
    ],
)
def test_verification_of_npb(output, right):
    assert Workload("cg.S", "cg.S", npb=True).verified(0, output) is right
    assert not Workload("cg.S", "cg.S", npb=True).verified(1, output)


@st.composite
def outputs(draw):
    """Amounts, and output that shows them between other lines, in pieces that come one second after the other."""
    amounts = draw(AMOUNTS)
    ends = st.sampled_from(["\n", "\r", "\r\n", "\nother line 7\n"])
    text = "".join(f"step  {amount}{draw(ends)}" for amount in amounts)
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=20)) | {0, len(text)})
    pieces = [(100.0 + number, text[a:b]) for number, (a, b) in enumerate(itertools.pairwise(cuts), 1)]
    return amounts, pieces


@given(outputs())
def test_marks_grow_and_end_with_the_largest_amount(output):
    amounts, pieces = output
    marks = STEPS.marks(100.0, pieces)
    assert marks[0] == (100.0, 0.0)
    assert marks[-1][1] == max([0, *amounts])
    for one, next_one in itertools.pairwise(marks):
        assert one[0] < next_one[0]
        assert one[1] < next_one[1]
    assert {amount for _, amount in marks} <= {0, *amounts}


@given(outputs())
def test_a_mark_has_the_time_at_which_its_line_was_complete(output):
    _, pieces = output
    for at_s, amount in STEPS.marks(100.0, pieces)[1:]:
        complete = "".join(text for time_s, text in pieces if time_s <= at_s)
        before = "".join(text for time_s, text in pieces if time_s < at_s)
        line = rf"(?m)^step  {int(amount)}[\r\n]"
        assert re.search(line, complete.replace("\r", "\n"))
        assert not re.search(line, before.replace("\r", "\n"))


def test_a_last_line_without_an_end_counts():
    assert STEPS.marks(0.0, [(1.0, "step 1\nst"), (2.0, "ep 2.5")]) == ((0.0, 0.0), (1.0, 1.0), (2.0, 2.5))


def test_without_progress_there_are_no_marks():
    assert Workload("cg.S", "cg.S").marks(0.0, [(1.0, "step 1\n")]) == ()
    assert STEPS.marks(0.0, [(1.0, "other\n")]) == ((0.0, 0.0),)


def test_an_amount_that_is_no_number_is_told():
    with pytest.raises(UsageError, match=r"progress of steps: '12,000' .* is not a number"):
        STEPS.marks(0.0, [(1.0, "step 12,000\n")])
    optional = Workload("optional", "run", progress=re.compile(r"done(?:: (\d+))?"))
    with pytest.raises(UsageError, match=r"None .* is not a number"):
        optional.marks(0.0, [(1.0, "done\n")])


def test_the_fingerprint_covers_all_that_decides(tmp_path):
    file = tmp_path / "cg.S.x"
    file.write_text("1")
    base = Workload("cg.S", "./cg.S.x", {"cg.S.x": file}, npb=True)
    others = [
        Workload("cg.S", "./cg.S.x 2", {"cg.S.x": file}, npb=True),
        Workload("cg.S", "./cg.S.x", {}, npb=True),
        Workload("cg.S", "./cg.S.x", {"cg.S.x": file}),
        Workload("cg.S", "./cg.S.x", {"cg.S.x": file}, npb=True, environment={"LD_LIBRARY_PATH": "lib"}),
        Workload("cg.S", "./cg.S.x", {"cg.S.x": file}, npb=True, progress=re.compile("(1)")),
    ]
    before = base.fingerprint()
    assert base.fingerprint() == before
    hashes = {before, *(one.fingerprint() for one in others)}
    file.write_text("2")
    hashes.add(base.fingerprint())
    assert len(hashes) == 2 + len(others)


def test_marks_with_times_of_their_own_are_on_the_hosts_clock():
    (one,) = shipped(["ep.S"])
    output = [(110.0, "Time = 2\n0.000000000 1003.000000000\n0.500000000 1004.500000000\n1.000000000 1005.000000000\n")]
    assert one.marks(102.0, output, 900.0) == ((102.0, 0.0), (104.5, 0.5), (105.0, 1.0))
    assert one.marks(102.0, output, None) == (), "without the clock an execution counts as even"


@given(st.integers(min_value=1, max_value=1000))
def test_samples_keep_few_marks_and_the_last(count):
    lines = "".join(f"{number / count:.9f} {100 + number:.9f}\n" for number in range(count + 1))
    marks = shipped(["ep.S"])[0].marks(100.0, [(5000.0, lines)], 0.0)
    assert len(marks) <= MARKS_MAX + 1
    assert marks[-1] == (100.0 + count, 1.0)
    assert all(before[0] < after[0] and before[1] < after[1] for before, after in itertools.pairwise(marks))
