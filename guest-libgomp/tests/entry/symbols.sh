#!/bin/sh
# symbols.sh SHIM RUNTIME PROGRAM...: the shim interposes all symbols of the runtime that it must, and a test program
# calls each of them.
set -eu
shim=$1 runtime=$2
shift 2
lists=$(mktemp -d)
trap 'rm -rf "$lists"' EXIT

defined() { nm -D --defined-only "$1" | awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u; }
fail=0
complain() {
    [ -s "$1" ] || return 0
    echo "$2:" >&2
    sed 's/^/    /' "$1" >&2
    fail=1
}

defined "$shim" | grep -E '^(GOMP|omp)_|^dlclose$' >"$lists/ours"
defined "$runtime" >"$lists/theirs"

# Entry points of parallel regions, and of the next chunk of a loop whose chunks any thread may do.
chunk='GOMP_loop_(ull_)?((non|maybe_non)?monotonic_)?(dynamic|guided|runtime)_next'
grep -E "^GOMP_(parallel|teams_reg)|^$chunk\$" "$lists/theirs" >"$lists/wanted"
# Fortran has its own names for all functions that C programs call.
grep '^omp_' "$lists/ours" | sed 's/_8_$//; s/_$//' | sort -u | while read -r name; do
    printf '%s\n' "$name" "${name}_" "${name}_8_"
done | grep -Fx -f "$lists/theirs" >>"$lists/wanted"
sort -u "$lists/wanted" -o "$lists/wanted"
if [ "$(wc -l <"$lists/wanted")" -lt 40 ]; then
    echo "nm finds hardly any symbols in $runtime: is it the runtime?" >&2
    exit 1
fi
comm -23 "$lists/wanted" "$lists/ours" >"$lists/missing"
complain "$lists/missing" "the runtime has these, and the shim does not interpose them (src/entry)"

nm -D -u "$@" | awk '{ sub(/@.*/, "", $NF); print $NF }' | sort -u >"$lists/called"
comm -23 "$lists/ours" "$lists/called" >"$lists/untested"
complain "$lists/untested" "the shim interposes these, and no test program calls them"
exit $fail
