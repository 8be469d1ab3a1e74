#!/bin/sh
# symbols.sh SHIM RUNTIME PROGRAM...: the shim interposes all that it must of the runtime, and each of its symbols is
# called by a test program.
set -eu
shim=$1 runtime=$2
shift 2
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"

defined() { nm -D --defined-only "$1" | awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u; }
fail=0
complain() {
    [ -s "$1" ] || return 0
    echo "$2:" >&2
    sed 's/^/    /' "$1" >&2
    fail=1
}

defined "$shim" | grep -E '^(GOMP|omp)_|^dlclose$' >ours
defined "$runtime" >theirs

# Ways into a parallel region, and to the next chunk of a loop whose chunks anybody may do.
grep -E '^GOMP_(parallel|teams_reg)|^GOMP_loop_(ull_)?((non|maybe_non)?monotonic_)?(dynamic|guided|runtime)_next$' theirs \
    >wanted
# Fortran has names of its own for whatever C programs call.
grep '^omp_' ours | sed 's/_8_$//; s/_$//' | sort -u | while read -r name; do
    printf '%s\n' "$name" "${name}_" "${name}_8_"
done | grep -Fx -f theirs >>wanted
sort -u wanted -o wanted
[ "$(wc -l <wanted)" -ge 40 ] || { echo "the list of what is wanted is short: does nm read $runtime?" >&2; exit 1; }
comm -23 wanted ours >missing
complain missing "the runtime has these, and the shim does not interpose them (src/entry_points.c, src/loops.c)"

nm -D -u "$@" | awk '{ sub(/@.*/, "", $NF); print $NF }' | sort -u >called
comm -23 ours called >untested
complain untested "the shim interposes these, and no test program calls them"

# What must be left alone: threads take turns, have chunks of their own, or are being set up.
grep -E '^GOMP_(loop_.*(ordered|static).*|loop_.*_start|sections.*|doacross.*|task.*)$' ours >harmful || :
complain harmful "the shim interposes these, which are not safe to answer for the runtime"
exit $fail
