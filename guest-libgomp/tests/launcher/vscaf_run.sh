#!/bin/sh
# vscaf_run.sh VSCAF_RUN LIBRARY FROM_PROGRAMS PROGRAMS: checks each promise of the launcher. FROM_PROGRAMS leads from
# the directory of installed programs to that of the library. PROGRAMS is a directory with test programs.
set -eu
run=$(readlink -f "$1")
library=$(readlink -f "$2")
from_programs=$3
programs=$4
if [ -z "${VSCAF_SOCKET-}" ]; then # all that follows has an agent, unless it says otherwise
    exec "$programs/gomp-test-with-agent" sh "$0" "$@"
fi
directory=$(mktemp -d /tmp/vscaf-run-test-XXXXXX)
trap 'rm -rf "$directory"' EXIT
unset LD_PRELOAD GOMP_SPINCOUNT KMP_BLOCKTIME KMP_LIBRARY OMP_WAIT_POLICY VSCAF_GOMP_LIBRARY
unset VSCAF_MALLEABLE GOMP_CPU_AFFINITY KMP_AFFINITY KMP_HW_SUBSET OMP_PLACES OMP_PROC_BIND

fail() {
    echo "failed: $*" >&2
    exit 1
}
# status WANTED COMMAND...: runs COMMAND, with output in $directory/out and $directory/err, and checks its exit status.
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
printf '#!/nowhere/at/all\n' >"$directory/script"
chmod +x "$directory/script"
status 127 "$run" "$directory/script"
one_line "$directory/script"
got=0
"$run" "$directory/script" 2>&- || got=$?
[ "$got" = 127 ] || fail "an interpreter that is not found, with stderr closed: $got"
printf 'no program' >"$directory/text"
status 126 "$run" "$directory/text"
one_line "$directory/text"

status 7 "$run" sh -c 'exit 7'
quiet
printf 'exit $1\n' >"$directory/plain"
chmod +x "$directory/plain"
status 9 "$run" "$directory/plain" 9
quiet
status 0 "$run" -- sh -c 'echo "$LD_PRELOAD $GOMP_SPINCOUNT"'
[ "$(cat "$directory/out")" = "$library 1000" ] || fail "environment: $(cat "$directory/out")"
status 0 "$run" "$run" sh -c 'echo "$LD_PRELOAD"'
[ "$(cat "$directory/out")" = "$library" ] || fail "vscaf-run under vscaf-run preloads once: $(cat "$directory/out")"
status 0 env GOMP_SPINCOUNT=5 "$run" sh -c 'echo "$GOMP_SPINCOUNT"'
[ "$(cat "$directory/out")" = 5 ] || fail "the user's spin count"
status 0 env OMP_WAIT_POLICY=active "$run" sh -c 'echo "${GOMP_SPINCOUNT-none} ${KMP_BLOCKTIME-none}"'
[ "$(cat "$directory/out")" = "none none" ] || fail "the user's wait policy: $(cat "$directory/out")"
status 0 "$run" sh -c 'echo "$KMP_BLOCKTIME"'
[ "$(cat "$directory/out")" = 20 ] || fail "block time: $(cat "$directory/out")"
status 0 env KMP_BLOCKTIME=7 "$run" sh -c 'echo "$KMP_BLOCKTIME"'
[ "$(cat "$directory/out")" = 7 ] || fail "the user's block time"
status 0 env KMP_LIBRARY=turnaround "$run" sh -c 'echo "$GOMP_SPINCOUNT ${KMP_BLOCKTIME-none}"'
[ "$(cat "$directory/out")" = "1000 none" ] || fail "the user's choice of waiting: $(cat "$directory/out")"
# A process that may use all CPUs keeps libomp from binding threads, unless the user has chosen something.
affinity() {
    expected=$1
    shift
    status 0 env "$@" "$run" sh -c 'echo "${KMP_AFFINITY-none}"'
    [ "$(cat "$directory/out")" = "$expected" ] || fail "KMP_AFFINITY, $*: $(cat "$directory/out")"
}
if [ "$(nproc)" = "$(getconf _NPROCESSORS_ONLN)" ]; then
    affinity disabled A=
    affinity compact KMP_AFFINITY=compact
    affinity none OMP_PROC_BIND=true
    affinity none OMP_PLACES=cores
    affinity none GOMP_CPU_AFFINITY=0
    affinity none KMP_HW_SUBSET=1c
fi
if [ "$(getconf _NPROCESSORS_ONLN)" -gt 1 ]; then
    affinity none taskset -c "$(taskset -cp $$ | sed 's/.*[: ]//; s/[-,].*//')"
fi
status 0 "$run" printf '%s|' 'a b' '' "c'd"
[ "$(cat "$directory/out")" = "a b||c'd|" ] || fail "arguments as they are"

# Libraries that are already preloaded stay, after the shim. libm is on every system and harmless.
other=$(ldconfig -p 2>/dev/null | sed -n 's/.*libm\.so\.6 .*=> //p' | head -n 1)
if [ -n "$other" ]; then
    status 0 env LD_PRELOAD="$other" "$run" sh -c 'echo "$LD_PRELOAD"'
    [ "$(cat "$directory/out")" = "$library:$other" ] || fail "prepended: $(cat "$directory/out")"
fi

# Where vscaf-run finds the library.
status 125 env VSCAF_GOMP_LIBRARY="$directory/absent.so" "$run" true
one_line 'absent.so'
cp "$run" "$directory/vscaf-run"
cp "$library" "$directory/chosen.so"
status 0 env VSCAF_GOMP_LIBRARY="$directory/chosen.so" "$directory/vscaf-run" sh -c 'echo "$LD_PRELOAD"'
[ "$(cat "$directory/out")" = "$directory/chosen.so" ] || fail "chosen: $(cat "$directory/out")"
# An installation that was moved, and a link to its launcher.
bin=$directory/moved/one/two/bin
mkdir -p "$bin" && mkdir -p "$bin/$from_programs"
cp "$run" "$bin/vscaf-run"
cp "$library" "$bin/$from_programs/libvscaf-gomp.so"
ln -s "$bin/vscaf-run" "$directory/link"
for launcher in "$bin/vscaf-run" "$directory/link"; do
    status 0 "$launcher" sh -c 'echo "$LD_PRELOAD"'
    [ "$(readlink -f "$(cat "$directory/out")")" = "$(readlink -f "$bin/$from_programs/libvscaf-gomp.so")" ] \
        || fail "moved: $(cat "$directory/out")"
done
cp "$library" "$directory/libvscaf-gomp.so"
status 0 "$directory/vscaf-run" sh -c 'echo "$LD_PRELOAD"'
[ "$(cat "$directory/out")" = "$directory/libvscaf-gomp.so" ] || fail "next to vscaf-run: $(cat "$directory/out")"
mkdir "$directory/a b"
cp "$library" "$directory/a b/"
status 125 env VSCAF_GOMP_LIBRARY="$directory/a b/libvscaf-gomp.so" "$run" true
one_line 'space or a colon'

# Where it cannot work, nothing in the environment changes, and one line says why.
steps_aside() {
    reason=$1
    shift
    env | sort >"$directory/before"
    status 0 "$run" --resize "$@"
    one_line "$reason"
    sort "$directory/out" | diff "$directory/before" - >&2 || fail "the environment of $*"
}
for case in 'static statically linked' 'static-runtime OpenMP runtime linked into it' 'asan AddressSanitizer' \
    'musl not for glibc'; do
    program=$programs/gomp-test-${case%% *}
    [ ! -e "$program" ] || steps_aside "${case#* }" "$program"
done
if [ -e "$programs/gomp-test-asan" ]; then
    asan=$(ldd "$programs/gomp-test-asan" | sed -n 's/.*libasan.* => \([^ ]*\).*/\1/p')
    status 0 env LD_PRELOAD="$asan" "$run" sh -c 'echo "$LD_PRELOAD"'
    one_line 'AddressSanitizer by LD_PRELOAD'
    [ "$(cat "$directory/out")" = "$asan" ] || fail "AddressSanitizer first: $(cat "$directory/out")"
fi
if [ -e "$programs/gomp-test-musl" ]; then # as an interpreter; a script of a script has it too
    printf '#! %s -x\n' "$programs/gomp-test-musl" >"$directory/inner"
    printf '#!%s\n' "$directory/inner" >"$directory/outer"
    chmod +x "$directory/inner" "$directory/outer"
    steps_aside 'not for glibc' "$directory/outer"
fi
if [ -e "$programs/gomp-test-static" ]; then # a static shell may start programs that can be managed
    printf '#!%s\n' "$programs/gomp-test-static" >"$directory/script"
    status 0 "$run" "$directory/script"
    quiet
    grep -qx "LD_PRELOAD=$library" "$directory/out" || fail "a script with a static interpreter"
fi
# A program for another processor and one of 32 bits: the kernel refuses them, after vscaf-run has looked at them.
refused() {
    cp "$programs/gomp-test-environment" "$directory/other"
    printf "$1" | dd of="$directory/other" bs=1 seek="$2" conv=notrunc 2>/dev/null
    "$run" "$directory/other" >/dev/null 2>"$directory/err" || true
    grep -q "$3" "$directory/err" || fail "$3: $(cat "$directory/err")"
}
refused '\377\177' 18 'another kind of processor'
refused '\001' 4 '32-bit'
# The dynamic linker as the command obeys LD_PRELOAD.
linker=$(ldd "$programs/gomp-test-environment" | sed -n 's/^[[:blank:]]*\(\/[^ ]*ld-linux[^ ]*\).*/\1/p')
if [ -n "$linker" ]; then
    status 0 "$run" "$linker" "$programs/gomp-test-environment"
    quiet
    grep -qx "LD_PRELOAD=$library" "$directory/out" || fail "the dynamic linker as the command"
fi
# Programs that run with other rights than their user's ignore the preload. An unreadable one still shows its rights.
cp "$programs/gomp-test-environment" "$directory/privileged"
for bits in 4755 2755 4711; do
    chmod "$bits" "$directory/privileged"
    steps_aside 'set-user-ID' "$directory/privileged"
done
chmod 755 "$directory/privileged"
status 0 "$run" "$directory/privileged"
quiet
if setcap cap_net_raw+ep "$directory/privileged" 2>/dev/null; then
    steps_aside 'capabilities of its own' "$directory/privileged"
    if setpriv --reuid 65534 --clear-groups true 2>/dev/null; then # that is so: the kernel ignores it
        chmod 755 "$directory"
        status 0 setpriv --reuid 65534 --clear-groups env LD_PRELOAD="$directory/no-such.so" "$directory/privileged"
        quiet
    fi
fi

# The agent has no work with the question whether it is there.
status 0 "$programs/gomp-test-with-agent" --unasked "$run" sh -c 'echo "$LD_PRELOAD"'
[ "$(cat "$directory/out")" = "$library" ] || fail "with an agent: $(cat "$directory/out")"

# Without an agent nothing changes and nothing is said. The file of an agent that has ended is none, nor is one that
# this user may not write to.
alone() {
    env "$@" env | sort >"$directory/before"
    status 0 env "$@" "$run" --resize env
    quiet
    sort "$directory/out" | diff "$directory/before" - >&2 || fail "the environment with $*"
}
alone VSCAF_SOCKET="$directory/absent.sock"
"$programs/gomp-test-with-agent" sh -c 'ln "$VSCAF_SOCKET" "$1"' sh "$directory/left.sock"
alone VSCAF_SOCKET="$directory/left.sock"
alone VSCAF_SOCKET="$directory/left.sock" VSCAF_GOMP_LIBRARY="$directory/absent.so"
alone VSCAF_SOCKET="$directory/text"

# Who declares by the option means it, whatever the environment says.
for word in "" rigid; do
    status 0 env ${word:+VSCAF_MALLEABLE=$word} "$run" --resize sh -c 'echo "$VSCAF_MALLEABLE"'
    [ "$(cat "$directory/out")" = full ] || fail "--resize: $(cat "$directory/out")"
    status 0 env ${word:+VSCAF_MALLEABLE=$word} "$run" sh -c 'echo "$VSCAF_MALLEABLE"'
    [ "$(cat "$directory/out")" = "$word" ] || fail "not declared: $(cat "$directory/out")"
done
status 0 "$run" --resize -- printf %s --resize
[ "$(cat "$directory/out")" = --resize ] || fail "a command's own option"

status 0 "$run" "$programs/gomp-test-environment"
quiet
if [ -e "$programs/gomp-test-static-runtime" ]; then
    # A damaged file must not break the look at it. What comes then is the library's path (125), or the program.
    look_at() {
        got=0
        VSCAF_GOMP_LIBRARY="$directory/a b/libvscaf-gomp.so" "$run" "$directory/damaged" >/dev/null 2>"$directory/err" \
            || got=$?
        [ "$got" = 125 ] || grep -q 'vscaf-run: warning: ' "$directory/err" || fail "$1: $got"
    }
    for bytes in 0 10 64 100 1000 5000 1000; do
        head -c "$bytes" "$programs/gomp-test-static-runtime" >"$directory/damaged"
        chmod +x "$directory/damaged"
        look_at "cut to $bytes"
    done
    size=$(wc -c <"$programs/gomp-test-static-runtime")
    for at in 32 33 40 42 46 54 56 58 60 $((size - 2000)) $((size - 1000)) $((size - 500)) $((size - 40)); do
        cp "$programs/gomp-test-static-runtime" "$directory/damaged"
        printf '\377\377\377\377\377\377' | dd of="$directory/damaged" bs=1 seek="$at" conv=notrunc 2>/dev/null
        look_at "damaged at $at"
    done
fi
