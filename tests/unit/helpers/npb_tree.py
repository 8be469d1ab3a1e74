"""Small trees with the layout of the official NPB: the same directories, Makefiles and variables, but tiny programs."""

import io
import tarfile
from pathlib import Path

TOP = """\
CLASS=U
{rules}
header:
\t@ sys/print_header
"""
RULE = """\
{upper}: {lower}
{lower}: header
\tcd {upper}; $(MAKE) CLASS=$(CLASS)
"""
COMMON = """\
PROGRAM = $(BINDIR)/$(BENCHMARK).$(CLASS).x
FCOMPILE = $({fortran}) -c $(F_INC) $(FFLAGS)
CCOMPILE = $(CC) -c $(C_INC) $(CFLAGS)
CLASS=U
default:: ${{PROGRAM}}
config:
\t@cd ../sys; ${{MAKE}} all
\t../sys/setparams ${{BENCHMARK}} ${{CLASS}}
COMMON=../common
${{COMMON}}/print_results.o: ${{COMMON}}/print_results.f ../config/make.def
\tcd ${{COMMON}}; ${{FCOMPILE}} print_results.f
${{COMMON}}/${{RAND}}.o: ${{COMMON}}/${{RAND}}.f ../config/make.def
\tcd ${{COMMON}}; ${{FCOMPILE}} ${{RAND}}.f
${{COMMON}}/wtime.o: ${{COMMON}}/${{WTIME}} ../config/make.def
\tcd ${{COMMON}}; ${{CCOMPILE}} ${{MACHINE}} -o wtime.o ${{COMMON}}/${{WTIME}}
npbparams.h: ../config/make.def
\trm -f npbparams.h
\t../sys/setparams ${{BENCHMARK}} ${{CLASS}}
"""
FORTRAN_MAKEFILE = """\
BENCHMARK={lower}
BENCHMARKU={upper}
include ../config/make.def
OBJS = {lower}.o ${{COMMON}}/print_results.o ${{COMMON}}/${{RAND}}.o ${{COMMON}}/wtime.o
include ../sys/make.common
${{PROGRAM}}: config ${{OBJS}}
\t${{FLINK}} ${{FLINKFLAGS}} -o ${{PROGRAM}} ${{OBJS}} ${{F_LIB}}
.f.o:
\t${{FCOMPILE}} $<
{lower}.o: {lower}.f npbparams.h
"""
C_MAKEFILE = """\
BENCHMARK={lower}
BENCHMARKU={upper}
include ../config/make.def
include ../sys/make.common
OBJS = {lower}.o ${{COMMON}}/wtime.o
${{PROGRAM}}: config ${{OBJS}}
\t${{CLINK}} ${{CLINKFLAGS}} -o ${{PROGRAM}} ${{OBJS}} ${{C_LIB}}
.c.o:
\t${{CCOMPILE}} $<
{lower}.o: {lower}.c npbparams.h
"""
SYS_MAKEFILE = """\
UCC = cc
include ../config/make.def
all: setparams
setparams: setparams.c ../config/make.def
\t$(UCC) -o setparams setparams.c
"""
# Like the real one, it copies flags of make.def into the programs (46 characters: a Fortran line has 72 columns), needs
# each variable on one line, and knows which classes a program has.
SETPARAMS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
    char line[400], flags[400] = "(none)";
    FILE *def = fopen("../config/make.def", "r"), *out;
    int c = !strcmp(argv[1], "is");

    if (argc != 3 || !def || !strchr(c ? "SWABCDE" : "SWABCDEF", argv[2][0])) {
        printf("setparams: class %s is not defined for %s\n", argv[2], argv[1]);
        exit(1);
    }
    while (fgets(line, sizeof line, def))
        sscanf(line, c ? "CFLAGS = %399[^\n]" : "FFLAGS = %399[^\n]", flags);
    out = fopen("npbparams.h", "w");
    if (c)
        fprintf(out, "#define CLASS '%c'\n#define FLAGS \"%s\"\n", argv[2][0], flags);
    else
        fprintf(out, "        character class\n        parameter (class='%c')\n"
                     "        character cs5*46\n        parameter (cs5='%.46s')\n", argv[2][0], flags);
    return fclose(out);
}
"""
PRINT_RESULTS = """\
      subroutine print_results(name, class, verified, flags)
      character name*(*), class, flags*(*)
      logical verified
      write (*, 1) name
 1    format (//, 1x, a, ' Benchmark Completed.')
      write (*, 2) class
 2    format (' Class           = ', 23x, a1)
      if (verified) then
         write (*, 3) '  SUCCESSFUL'
      else
         write (*, 3) 'UNSUCCESSFUL'
      endif
 3    format (' Verification    = ', 12x, a)
      write (*, 4) flags
 4    format ('    FFLAGS       = ', a)
      end
"""
RANDOM = """\
      double precision function randlc(x)
      double precision x
      randlc = x * 0.5d0
      end
"""
FORTRAN_PROGRAM = """\
      program main
      include 'npbparams.h'
      double precision total, randlc
      integer i
      external wtime
      call wtime()
      total = 0
!$omp parallel do reduction(+:total)
      do i = 1, 1000
         total = total + randlc(2d0)
      end do
      call print_results('{upper}', class, total .eq. 1000d0, cs5)
      end
"""
# Passes an array of complex numbers where another call passes real ones.
MISMATCHED_PROGRAM = """\
      program main
      include 'npbparams.h'
      complex*16 c(2)
      double precision r(4)
      external wtime
      call wtime()
      call fill(c)
      call fill(r)
      call print_results('{upper}', class, dble(c(1)) + r(1) .eq. 2d0, cs5)
      end
      subroutine fill(x)
      double precision x(4)
      x(1) = 1
      end
"""
BROKEN_PROGRAM = """\
      program main
      call print_results('{upper}'
      end
"""
C_PROGRAM = r"""
#include <stdio.h>
#include "npbparams.h"
int main(void)
{
    int total = 0;
#pragma omp parallel for reduction(+ : total)
    for (int i = 0; i < 1000; i++)
        total += i;
    printf("\n\n %s Benchmark Completed\n Class           = %24c\n", "IS", CLASS);
    printf(" Verification    =             %s\n", total == 499500 ? "  SUCCESSFUL" : "UNSUCCESSFUL");
    printf("    CFLAGS       = %s\n", FLAGS);
    return 0;
}
"""
HANGING_MAKEFILE = "all:\n\tsleep 100000\n"


def npb_tree(directory: Path, version: str, programs: dict[str, str]) -> Path:
    """Makes the OpenMP tree NPB{version}-OMP in *directory*, with these programs: name -> text."""
    fortran = "FC" if version >= "3.4" else "F77"
    tree = directory / f"NPB{version}-OMP"
    files = {
        "Makefile": TOP.format(rules="".join(RULE.format(upper=name, lower=name.lower()) for name in programs)),
        "sys/Makefile": SYS_MAKEFILE,
        "sys/make.common": COMMON.format(fortran=fortran),
        "sys/setparams.c": SETPARAMS,
        "sys/print_header": "#!/bin/sh\necho '   =   NAS PARALLEL BENCHMARKS   ='\n",
        "common/print_results.f": PRINT_RESULTS,
        "common/randi8.f": RANDOM,
        "common/wtime.c": "void wtime_(void) {}\n",
        "config/make.def.template": f"# {fortran} - Fortran compiler\n{fortran} = f77\n",
        "config/NAS.samples/make.def_gcc": f"{fortran} = gfortran\n",
        "README": f"NPB {version}\n",
    }
    for name, text in programs.items():
        names = {"lower": name.lower(), "upper": name}
        if text == HANGING_MAKEFILE:
            files[f"{name}/Makefile"] = text
        elif text == C_PROGRAM:
            files |= {f"{name}/{name.lower()}.c": text, f"{name}/Makefile": C_MAKEFILE.format(**names)}
        else:
            files[f"{name}/{name.lower()}.f"] = text.format(**names)
            files[f"{name}/Makefile"] = FORTRAN_MAKEFILE.format(**names)
    for path, text in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    (tree / "sys/print_header").chmod(0o755)
    (tree / "bin").mkdir()
    return tree


def pack(directory: Path, archive: Path) -> Path:
    """A .tar.gz of a directory, with the directory's name as the first part of each path."""
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(directory, directory.name)
    return archive


def pack_members(archive: Path, members: list[tarfile.TarInfo]) -> Path:
    """A .tar.gz of members that no file system would give. Files have one byte."""
    with tarfile.open(archive, "w:gz") as tar:
        for member in members:
            member.size = 1 if member.isfile() else 0
            tar.addfile(member, io.BytesIO(b"x") if member.isfile() else None)
    return archive
