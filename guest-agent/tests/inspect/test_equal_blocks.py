"""A divided loop whose body is there twice, as GCC writes it: free if both copies are the same, and only then."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path

import pytest

INSPECT = Path(os.environ.get("VSCAF_BUILD", "build")).absolute() / "guest-agent" / "vscaf-inspect"
pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the code is for x86-64")

# The share of 240 turns is %edx to %eax, as GCC divides it.
START = """
    .text
    .type turns._omp_fn.0, @function
turns._omp_fn.0:
    push %rbp
    push %rbx
    sub $0x18, %rsp
    mov %rdi, %rbx
    call omp_get_num_threads@plt
    mov %eax, %ebp
    call omp_get_thread_num@plt
    xor %edx, %edx
    mov %eax, %ecx
    mov $0xf0, %eax
    idiv %ebp
    cmp %edx, %ecx
    jl .Lmore
.Ldivided:
    imul %eax, %ecx
    add %ecx, %edx
    add %edx, %eax
    mov %edx, %ebp
    mov %eax, %r12d
    cmp %r12d, %ebp
    jge .Lend
    mov $7, %r13d
    mov $8, %r14d
"""
END = """
.Lend:
    add $0x18, %rsp
    pop %rbx
    pop %rbp
    ret
.Lmore:
    add $1, %eax
    xor %edx, %edx
    jmp .Ldivided
    .size turns._omp_fn.0, . - turns._omp_fn.0
    .type own, @function
own:
    mov (%rsp), %rax
    ret
    call GOMP_parallel@plt
    .local table
    .comm table, 8192, 64
    .section .note.GNU-stack, "", @progbits
"""
INDEX = "movslq %ebp, %rcx\nlea table(%rip), %rsi\n"
STORE = INDEX + "mov %r13d, (%rsi,%rcx,4)\n"
NEXT = "add $1, %ebp\ncmp %ebp, %r12d\n"
LEAVE, AGAIN = "je .Lend\n", "jne .Lfirst\njmp .Lend\n"
TURN = STORE + NEXT
FLOAT = "pxor %xmm0, %xmm0\ncvtsi2sd %ebp, %xmm0\n"
BRANCHES = "cmp $100, %ebp\njl 1f\n" + STORE + "1:\n" + NEXT

# What a turn does, and what is nearly the same.
NEARLY = {
    "another number": (INDEX + "movl $7, (%rsi,%rcx,4)\n" + NEXT, INDEX + "movl $8, (%rsi,%rcx,4)\n" + NEXT),
    "another register": (TURN, INDEX + "mov %r14d, (%rsi,%rcx,4)\n" + NEXT),
    "another array": (TURN, TURN.replace("table", "table+2048")),
    "another step": (TURN, TURN.replace("add $1", "add $2")),
    "another width": (TURN, TURN.replace("mov %r13d, ", "mov %r13w, ")),
    "another limit": (TURN, TURN.replace("%r12d", "%r14d")),
    "nothing stored": (TURN, NEXT),
    "stored twice": (TURN, STORE + "mov %r14d, (%rsi,%rcx,4)\n" + NEXT),
    "the other half of a register": (
        INDEX + "mov $0x102, %eax\nmov %al, (%rsi,%rcx,4)\n" + NEXT,
        INDEX + "mov $0x102, %eax\nmov %ah, (%rsi,%rcx,4)\n" + NEXT,
    ),
    "another way to round": (
        FLOAT + "roundsd $1, %xmm0, %xmm0\n" + INDEX + "movsd %xmm0, (%rsi,%rcx,8)\n" + NEXT,
        FLOAT + "roundsd $2, %xmm0, %xmm0\n" + INDEX + "movsd %xmm0, (%rsi,%rcx,8)\n" + NEXT,
    ),
    "another function": (
        FLOAT + "call sin@plt\n" + INDEX + "movsd %xmm0, (%rsi,%rcx,8)\n" + NEXT,
        FLOAT + "call cos@plt\n" + INDEX + "movsd %xmm0, (%rsi,%rcx,8)\n" + NEXT,
    ),
    "a comparison without a sign": (BRANCHES, BRANCHES.replace("jl", "jb")),
    "a comparison that may overflow": (BRANCHES, BRANCHES.replace("jl", "js")),
    "the opposite comparison": (BRANCHES, BRANCHES.replace("jl", "jge")),
    "another number to compare with": (BRANCHES, BRANCHES.replace("$100", "$101")),
    "a comparison of halves": (BRANCHES, BRANCHES.replace("cmp $100, %ebp", "cmp $100, %bp")),
}


def verdict(place: Path, loop: str) -> str:
    (place / "turns.s").write_text(START + loop + END)
    library = place / "turns.so"
    subprocess.run(["cc", "-shared", "-fopenmp", "-o", str(library), str(place / "turns.s"), "-lm"], check=True)
    done = subprocess.run([str(INSPECT), "--json", str(library)], check=True, capture_output=True, text=True)
    (section,) = json.loads(done.stdout)["sections"]
    return str(section["verdict"])


def twice(turn: str, other: str, leave: str = LEAVE, again: str = AGAIN) -> str:
    return f".Lfirst:\n{turn}{leave}{other}{again}"


@pytest.mark.parametrize("turn", [turn for turn, _ in NEARLY.values()], ids=NEARLY)
def test_equal_copies_are_one(tmp_path: Path, turn: str) -> None:
    assert verdict(tmp_path, ".Lfirst:\n" + turn + AGAIN) == "free"
    assert verdict(tmp_path, twice(turn, turn)) == "free"
    assert verdict(tmp_path, f".Lfirst:\n{turn}{LEAVE}{turn}{LEAVE}{turn}{AGAIN}") == "free"


@pytest.mark.parametrize("name", NEARLY)
def test_nearly_equal_copies_stay_two(tmp_path: Path, name: str) -> None:
    turn, other = NEARLY[name]
    assert verdict(tmp_path, twice(turn, other)) == "own"
    assert verdict(tmp_path, twice(other, turn)) == "own"
    assert verdict(tmp_path, f".Lfirst:\n{turn}{LEAVE}{turn}{LEAVE}{other}{AGAIN}") == "own"


@pytest.mark.parametrize(
    ("leave", "again", "expected"),
    [
        ("jne .Lsecond\njmp .Lend\n.Lsecond:\n", AGAIN, "free"),
        ("je .Lleave\n", "jne .Lfirst\n.Lleave:\njmp .Lend\n", "free"),
        ("jne .Lend\n", AGAIN, "own"),
        (LEAVE, "je .Lfirst\njmp .Lend\n", "own"),
        ("jge .Lend\n", AGAIN, "own"),
        ("je .Lfirst\n", AGAIN, "own"),
        (LEAVE, "jne .Lfirst\nmov %r14d, table(%rip)\njmp .Lend\n", "own"),
    ],
)
def test_ways_on_must_be_equal(tmp_path: Path, leave: str, again: str, expected: str) -> None:
    assert verdict(tmp_path, twice(TURN, TURN, leave, again)) == expected


def test_a_branch_may_be_the_other_way_round(tmp_path: Path) -> None:
    other = "cmp $100, %ebp\njge 2f\njmp 1f\n2:\n" + STORE + "1:\n" + NEXT
    assert verdict(tmp_path, twice(BRANCHES, other)) == "free"


@pytest.mark.parametrize(("after", "expected"), [("", "free"), ("mov %ebp, table(%rip)\n", "own")])
def test_a_loop_that_begins_with_a_jump_still_ends(tmp_path: Path, after: str, expected: str) -> None:
    loop = f"jmp .Lfirst\n.Lbody:\n{TURN}je .Lleave\n.Lfirst:\njmp .Lbody\n.Lleave:\n{after}"
    assert verdict(tmp_path, loop) == expected


def test_a_call_of_an_own_function_tells_where_it_is(tmp_path: Path) -> None:
    turn = "call own\n" + INDEX + "mov %eax, (%rsi,%rcx,4)\n" + NEXT
    assert verdict(tmp_path, ".Lfirst:\n" + turn + AGAIN) == "free"
    assert verdict(tmp_path, twice(turn, turn)) == "own"


def test_both_copies_may_use_thread_data(tmp_path: Path) -> None:
    data = '.section .tbss, "awT", @nobits\nlocal: .zero 4\n.text\n'
    use = "mov %ebp, %fs:(%rdi)\nmov %fs:(%rdi), %r13d\n"
    turn = "mov local@gottpoff(%rip), %rdi\n" + use + TURN
    assert verdict(tmp_path, data + ".Lfirst:\n" + turn + AGAIN) == "free"
    assert verdict(tmp_path, data + twice(turn, turn)) == "free"
