#!/bin/sh
# Runs a command as an ordinary user in another root: enter_root.sh ROOT [FROM TO]... -- [NAME=VALUE]... COMMAND...
# FROM is seen there as TO, read-only. Mounts and processes are those of this command, and gone with it:
# what deletes the root afterwards can reach nothing else.
set -eu
if [ "${ENTERED:-}" != yes ]; then
    ENTERED=yes exec unshare --mount --pid --fork --kill-child "$0" "$@"
fi
root=$1
shift
mount -t proc proc "$root/proc"
while [ "$1" != -- ]; do
    if [ -d "$1" ]; then mkdir -p "$root$2"; else touch "$root$2"; fi
    mount --bind -o ro "$1" "$root$2"
    shift 2
done
shift
cd /
exec chroot --userspec=1000:1000 "$root" env -i "$@"
