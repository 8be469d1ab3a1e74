"""Composes a random program from blocks. The same seed gives the same program."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from random import Random

from templates import Block, Piece, make_block, numbers, templates

C_HEAD = """\
#include <errno.h>
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
"""
CXX_HEADERS = {
    "std::vector": "vector",
    "std::function": "functional",
    "std::atomic": "atomic",
    "std::mutex": "mutex",
    "std::map": "map",
    "std::thread": "thread",
}
C_SHARED = """\
#ifdef __cplusplus
#define C_NAME extern "C"
#define C_DATA extern "C"
#else
#define C_NAME
#define C_DATA extern
#endif
typedef uint64_t u64;
C_DATA int told_argument, told_at_start;
static inline u64 mix(u64 h, u64 value)
{
    return ((h ^ value) * 0x9e3779b97f4a7c15u) ^ (h >> 29);
}
"""
FORTRAN_SHARED = """\
module shared
  use omp_lib
  implicit none
  integer(8), parameter :: mask = 2_8**40 - 1
  integer :: told_argument = 0, told_at_start = 0
  interface
    integer(4) function sched_yield() bind(c)
    end function
  end interface
contains
  pure integer(8) function mix(h, value)
    integer(8), intent(in) :: h, value
    mix = iand(ieor(h * 31 + 7, value), mask)
  end function
  pure integer(8) function hash(a, n)
    integer, intent(in) :: n
    integer(8), intent(in) :: a(n)
    integer :: i
    hash = 0
    do i = 1, n
      hash = mix(hash, a(i))
    end do
  end function
  subroutine pause_briefly()
    integer(4) :: ignored
    ignored = sched_yield()
  end subroutine
end module
"""
SUFFIX = {"c": ".c", "c++": ".cc", "fortran": ".f90"}
ROUNDS = (150, 400)


@dataclass
class Source:
    """One source file. `starts` and `kinds` say which line belongs to which kind."""

    name: str
    text: str = ""
    starts: list[int] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)

    def add(self, text: str, kind: str = "") -> None:
        self.starts.append(self.text.count("\n") + 1)
        self.kinds.append(kind)
        self.text += text.rstrip("\n") + "\n"

    def kind_of(self, line: int) -> str:
        return self.kinds[max(0, bisect_right(self.starts, line) - 1)]


@dataclass
class Program:
    seed: int
    language: str
    threads: int
    layout: str  # one: two object files in one program; library: the second is a linked library; dlopen
    rounds: int
    blocks: list[Block]
    dropped: frozenset[int]  # blocks that are left out, to find the one that fails
    main: Source
    second: Source | None
    third: Source | None  # the other object of the main program, when the second is loaded by dlopen

    @property
    def sources(self) -> list[Source]:
        return [source for source in (self.main, self.second, self.third) if source]


def prototypes(pieces: list[Piece]) -> str:
    """Declarations of what the pieces define for other objects."""
    lines = []
    for piece in pieces:
        lines += [f"C_NAME {line};" for line in re.findall(r"(?m)^((?:u64|int|void) \**kind_\w+\(.*\))$", piece.text)]
        lines += [f"extern {line}" for line in re.findall(r"(?m)^(__thread .*;)$", piece.text)]
    return "\n".join(lines) + "\n"


def choose_blocks(random: Random, language: str, threads: int, count: int, with_masters: bool) -> list[Block]:
    kinds, sources = templates(language), numbers(language)
    if language == "c++":  # about half of them C++ alone
        cxx = [template for template in kinds if template.kind.startswith("cxx_")]
        kinds = kinds + cxx * (len(kinds) // len(cxx) - 1)
    persists = random.random() < 0.5  # only one of both: thread data that stays, or teams of other sizes
    excluded = "disturbs" if persists else "persists"
    kinds = [t for t in kinds if excluded not in t.tags and not (with_masters and "disturbs" in t.tags)]
    return [make_block(random.choice(kinds), sources, index, threads, random) for index in range(count)]


def c_main(program: Program, inside: list[Block], outside: list[Block], asks: bool, masters: bool) -> str:
    every = inside + outside
    names = {
        block.name: (f"at_{block.name}" if program.layout == "dlopen" and block in outside else block.name)
        for block in every
    }
    lines = ["#include <dlfcn.h>", "typedef u64 block_function(unsigned);"]
    for block in outside:
        if program.layout == "dlopen":
            lines.append(f"static block_function *at_{block.name};")
        else:
            lines.append(f"C_NAME u64 {block.name}(unsigned);")
    lines += [f"static u64 results[{len(every) + 1}];"]
    halves = [every[0::2], every[1::2]] if masters else [every]
    for number, half in enumerate(halves):
        lines += [f"static void *rounds_{number}(void *unused)", "{"]
        lines += [f"    for (unsigned round = 1; round <= {program.rounds}; round++) {{"]
        for block in half:
            at = every.index(block)
            lines.append(f"        results[{at}] = mix(results[{at}], {names[block.name]}(round));")
        lines += ["    }", "    return unused;", "}"]
    lines += ["int main(int count, char **words)", "{", "    told_argument = count > 1 ? atoi(words[1]) : 1;"]
    if asks:
        lines.append("    told_at_start = omp_get_max_threads();")
    if program.layout == "dlopen":
        lines += [
            "    void *library = count > 2 ? dlopen(words[2], RTLD_NOW) : NULL;",
            "    if (!library)",
            "        return 9;",
        ]
        lines += [f'    at_{b.name} = (block_function *)dlsym(library, "{b.name}");' for b in outside]
    if masters:
        lines += ["    pthread_t other;", "    pthread_create(&other, NULL, rounds_1, NULL);", "    rounds_0(NULL);"]
        lines += ["    pthread_join(other, NULL);"]
    else:
        lines.append("    rounds_0(NULL);")
    lines += [
        f'    printf("{block.name} %016llx\\n", (unsigned long long)results[{at}]);' for at, block in enumerate(every)
    ]
    return "\n".join([*lines, "    return 0;", "}"])


def put_c(source: Source, language: str, head: str, pieces: list[Piece], known: str) -> None:
    text = "".join(piece.text for piece in pieces)
    headers = [f"#include <{name}>" for word, name in CXX_HEADERS.items() if language == "c++" and word in text]
    source.add("\n".join([C_HEAD, *headers, C_SHARED, head, known]))
    for piece in pieces:
        source.add(piece.text, piece.kind)


def make_c(program: Program, random: Random, masters: bool) -> None:
    blocks = [block for at, block in enumerate(program.blocks) if at not in program.dropped]
    # Chosen for the dropped ones too: the others stay where they were.
    places = {block.name: random.random() < 0.6 for block in program.blocks}
    inside = [block for block in blocks if places[block.name]]
    outside = [block for block in blocks if not places[block.name]]
    pieces_in = [piece for block in inside for piece in block.own]
    pieces_out = [piece for block in outside for piece in block.own]
    beside_out = [piece for block in inside for piece in block.other]
    beside_in = [piece for block in outside for piece in block.other]
    known = prototypes(pieces_in + pieces_out + beside_in + beside_out)
    text = "".join(piece.text for block in program.blocks for piece in block.own)
    asks = "told_at_start" in text or random.random() < 0.4
    defines = "int told_argument, told_at_start;"
    put_c(program.main, program.language, defines, pieces_in + beside_in, known)
    suffix = SUFFIX[program.language]
    program.second = Source("second" + suffix)
    if program.layout == "dlopen":
        program.third = Source("third" + suffix)
        put_c(program.third, program.language, "", beside_out, known)
        beside_out = []
    put_c(program.second, program.language, "", pieces_out + beside_out, known)
    program.main.add(c_main(program, inside, outside, asks, masters))


def make_fortran(program: Program, random: Random) -> None:
    blocks = [block for at, block in enumerate(program.blocks) if at not in program.dropped]
    asks = (
        any("told_at_start" in piece.text for block in program.blocks for piece in block.own) or random.random() < 0.4
    )
    program.main.add(FORTRAN_SHARED)
    for block in blocks:
        for piece in block.own:
            program.main.add(piece.text, piece.kind)
    lines = ["program main", "  use shared", "  integer(8) :: round", f"  integer(8) :: results({len(blocks) + 1}) = 0"]
    lines += ["  character(len=16) :: word"]
    lines += [f"  integer(8), external :: {block.name}" for block in blocks]
    lines += ["  call get_command_argument(1, word)", "  read (word, *) told_argument"]
    lines += ["  told_at_start = omp_get_max_threads()"] if asks else []
    lines += [f"  do round = 1, {program.rounds}"]
    lines += [f"    results({at}) = mix(results({at}), {b.name}(round))" for at, b in enumerate(blocks, 1)]
    lines += ["  end do"]
    lines += [f"  print '(a, 1x, z16)', '{b.name}', results({at})" for at, b in enumerate(blocks, 1)]
    program.main.add("\n".join([*lines, "end program"]))
    others = [piece for block in blocks for piece in block.other]
    if others:
        program.second = Source("second.f90")
        for piece in others:
            program.second.add(piece.text, piece.kind)


def generate(seed: int, dropped: frozenset[int] = frozenset(), language: str | None = None) -> Program:
    random = Random(seed)
    chosen = random.choices(["c", "c++", "fortran"], [5, 3, 2])[0]
    language = language or chosen
    threads = random.randint(2, 5)
    layout = random.choice(["one", "one", "library", "dlopen"]) if language != "fortran" else "one"
    masters = language != "fortran" and random.random() < 0.12
    blocks = choose_blocks(random, language, threads, random.randint(3, 8), masters)
    rounds = random.randint(*ROUNDS)
    program = Program(
        seed, language, threads, layout, rounds, blocks, dropped, Source("main" + SUFFIX[language]), None, None
    )
    if language == "fortran":
        make_fortran(program, random)
    else:
        make_c(program, random, masters)
    return program
