#!/bin/sh
# Makes sure that there is an SSH server, and systemd's checks of units, for the tests that log in or look at a unit.
set -eu
missing=""
if ! { PATH="$PATH:/usr/sbin" command -v sshd && command -v ssh; } >/dev/null; then
  missing="openssh-server openssh-client"
fi
command -v systemd-analyze >/dev/null || missing="$missing systemd"
[ -n "$missing" ] || exit 0
# Where systemd runs, the package would start a server that everybody can reach: that is the owner's to decide.
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && [ ! -d /run/systemd/system ]; then
  apt-get update -qq
  # shellcheck disable=SC2086  # words
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
  echo "tests that need these are left out: $missing" >&2
fi
