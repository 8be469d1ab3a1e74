#!/bin/sh
# left_out.sh PROGRAM: a build without counters says so once, and goes on with the metric rate.
set -eu
said=$("$1" no-counters 2>&1 >/dev/null) || { echo "$said" >&2; exit 1; }
[ "$(echo "$said" | grep -c 'VSCAF_METRIC=ipc: built without hardware counters')" = 1 ] || {
    echo "this was not said exactly once: $said" >&2
    exit 1
}
