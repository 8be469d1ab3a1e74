#!/bin/sh
# declare_listed.sh PROGRAM: runs it in a mount namespace where a file in /etc/vscaf/programs.d names it.
set -eu
unshare -rm mount -t tmpfs none /mnt 2>/dev/null || exit 77
exec unshare -rm sh -ceu 'mount -t tmpfs none /etc
mkdir -p /etc/vscaf/programs.d
readlink -f "$1" >/etc/vscaf/programs.d/test
exec "$1" listed' sh "$1"
