#!/bin/sh
# left_out.sh PROGRAM: a build without counters says once that it has none, and goes on by rate.
set -eu
said=$("$1" no-counters 2>&1 >/dev/null) || { echo "$said" >&2; exit 1; }
[ "$(echo "$said" | grep -c 'VSCAF_METRIC=ipc: built without hardware counters')" = 1 ] || {
    echo "not said once: $said" >&2
    exit 1
}
