#!/bin/sh
# Lets this machine run programs for ARM, for tests/arm: the emulator, and who makes file systems of Debian's packages.
set -eu
[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || { echo "tests/arm: they are for a Linux machine on x86-64" >&2; exit 0; }
[ "$(id -u)" = 0 ] || { echo "tests/arm: left out: only root may register an emulator and make a root file system" >&2; exit 0; }
if ! { command -v qemu-aarch64-static && command -v qemu-arm-static && command -v mmdebstrap; } >/dev/null; then
  command -v apt-get >/dev/null || { echo "tests/arm: left out: qemu-user-static and mmdebstrap are not here" >&2; exit 0; }
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    qemu-user-static mmdebstrap debian-archive-keyring >/dev/null
fi
formats=/proc/sys/fs/binfmt_misc
[ -e $formats/register ] || mount -t binfmt_misc binfmt_misc $formats 2>/dev/null ||
  { echo "tests/arm: left out: this kernel has no binfmt_misc, so that it runs no programs for ARM" >&2; exit 0; }
# The flag F: the interpreter is opened now, so that it is found from inside another root.
register() {  # NAME CLASS MACHINE INTERPRETER
  for format in $formats/*; do
    if grep -sq '^enabled' "$format" && grep -sq "^interpreter .*$4" "$format" && grep -sq '^flags:.*F' "$format"; then
      return
    fi
  done
  zeros='\x00\x00\x00\x00\x00\x00\x00\x00\x00'
  magic="\\x7fELF\\x0$2\\x01\\x01$zeros\\x02\\x00\\x$3\\x00"
  mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
  printf '%s' ":$1:M::$magic:$mask:$(command -v "$4"):F" >$formats/register
}
register enginebench-aarch64 2 b7 qemu-aarch64-static
register enginebench-arm 1 28 qemu-arm-static
