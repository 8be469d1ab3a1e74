#!/bin/sh
# other_plugin.sh COMPILER... SOURCE RUNTIME OUTPUT: makes a library of SOURCE that depends on RUNTIME alone.
set -eu
compiler=
while [ $# -gt 3 ]; do
    compiler="$compiler $1"
    shift
done
runtime=$(readlink -f "$2")
# shellcheck disable=SC2086 # the compiler may have a wrapper before it
$compiler -O1 -fopenmp -fPIC -c "$1" -o "$3.o"
# shellcheck disable=SC2086
$compiler -shared "$3.o" "$runtime" -Wl,-rpath,"$(dirname "$runtime")" -o "$3"
rm -f "$3.o"
