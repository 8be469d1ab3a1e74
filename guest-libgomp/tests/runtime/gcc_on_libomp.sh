#!/bin/sh
# gcc_on_libomp.sh GCC CLANG SOURCE OUTPUT: a library that gcc compiles and clang links, so it uses clang's runtime.
set -eu
"$1" -O1 -fopenmp -fPIC -c "$3" -o "$4.o"
"$2" -fopenmp -shared "$4.o" -o "$4"
rm -f "$4.o"
