#!/bin/sh
# vscaf_run.sh VSCAF_RUN LIBRARY [STATIC_PROGRAM]: the launcher's promises, one by one.
set -eu
run=$(readlink -f "$1")
library=$(readlink -f "$2")
static=${3:-}
directory=$(mktemp -d /tmp/vscaf-run-test-XXXXXX)
trap 'rm -rf "$directory"' EXIT
unset LD_PRELOAD GOMP_SPINCOUNT OMP_WAIT_POLICY VSCAF_GOMP_LIBRARY

fail() {
    echo "not so: $*" >&2
    exit 1
}
# status WANTED COMMAND...: runs it, output in $directory/out and $directory/err
status() {
    wanted=$1
    shift
    got=0
    "$@" >"$directory/out" 2>"$directory/err" || got=$?
    [ "$got" = "$wanted" ] || fail "$* gave $got, not $wanted: $(cat "$directory/err")"
}
one_line() {
    [ "$(wc -l <"$directory/err")" = 1 ] || fail "one line: $(cat "$directory/err")"
    grep -q -- "$1" "$directory/err" || fail "\"$1\" in: $(cat "$directory/err")"
}
quiet() {
    [ ! -s "$directory/err" ] || fail "silent: $(cat "$directory/err")"
}

status 0 "$run" --help
grep -q 'usage: vscaf-run' "$directory/out" || fail "--help"
status 125 "$run"
one_line 'no command'
status 125 "$run" --nonsense
one_line '--nonsense'
status 127 "$run" no-such-command-here
one_line 'no-such-command-here'
status 127 "$run" /nowhere/at/all
one_line '/nowhere/at/all'
printf 'no program' >"$directory/text"
status 126 "$run" "$directory/text"
one_line "$directory/text"

status 7 "$run" sh -c 'exit 7'
quiet
status 0 "$run" -- sh -c 'echo "$LD_PRELOAD $GOMP_SPINCOUNT"'
[ "$(cat "$directory/out")" = "$library 10000" ] || fail "environment: $(cat "$directory/out")"
status 0 "$run" "$run" sh -c 'echo "$LD_PRELOAD"'
[ "$(cat "$directory/out")" = "$library" ] || fail "twice is once: $(cat "$directory/out")"
status 0 env GOMP_SPINCOUNT=5 "$run" sh -c 'echo "$GOMP_SPINCOUNT"'
[ "$(cat "$directory/out")" = 5 ] || fail "the user's spin count"
status 0 env OMP_WAIT_POLICY=active "$run" sh -c 'echo "${GOMP_SPINCOUNT-none}"'
[ "$(cat "$directory/out")" = none ] || fail "the user's wait policy"
status 0 "$run" printf '%s|' 'a b' '' "c'd"
[ "$(cat "$directory/out")" = "a b||c'd|" ] || fail "arguments as they are"

# What is preloaded already stays, behind the shim. libm is everywhere and harms nobody.
other=$(ldconfig -p 2>/dev/null | sed -n 's/.*libm\.so\.6 .*=> //p' | head -n 1)
if [ -n "$other" ]; then
    status 0 env LD_PRELOAD="$other" "$run" sh -c 'echo "$LD_PRELOAD"'
    [ "$(cat "$directory/out")" = "$library:$other" ] || fail "prepended: $(cat "$directory/out")"
fi

# Where the library is.
status 125 env VSCAF_GOMP_LIBRARY="$directory/absent.so" "$run" true
one_line 'absent.so'
cp "$run" "$directory/vscaf-run"
cp "$library" "$directory/chosen.so"
status 0 env VSCAF_GOMP_LIBRARY="$directory/chosen.so" "$directory/vscaf-run" sh -c 'echo "$LD_PRELOAD"'
[ "$(cat "$directory/out")" = "$directory/chosen.so" ] || fail "chosen: $(cat "$directory/out")"
cp "$library" "$directory/libvscaf-gomp.so"
status 0 "$directory/vscaf-run" sh -c 'echo "$LD_PRELOAD"'
[ "$(cat "$directory/out")" = "$directory/libvscaf-gomp.so" ] || fail "beside itself: $(cat "$directory/out")"
mkdir "$directory/a b"
cp "$library" "$directory/a b/"
status 125 env VSCAF_GOMP_LIBRARY="$directory/a b/libvscaf-gomp.so" "$run" true
one_line 'space or a colon'

if [ -n "$static" ]; then
    status 42 "$run" "$static"
    one_line 'statically linked'
fi
