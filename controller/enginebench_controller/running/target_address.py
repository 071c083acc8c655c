"""New targets: what may be their name and their address."""

import time

from enginebench_controller.errors import InputError
from enginebench_controller.records import LOCAL_TARGET, Target
from enginebench_controller.running.ssh import MAX_PORT, SshPlace, is_ssh


def new_target(name: str, address: str) -> Target:
    """A target added now. Raises `InputError` for a name or an address that cannot be one."""
    if name == LOCAL_TARGET or not name or not all(character.isalnum() or character in "-_." for character in name):
        raise InputError(f"{name!r} cannot name a target: use letters, digits, '-', '_' or '.', and not 'local'")
    if is_ssh(address):
        return Target(name, SshPlace.parse(address).address, time.time_ns())
    host, _, port = address.rpartition(":")
    if not host or any(map(str.isspace, host)) or not port.isdecimal() or not 0 < int(port) <= MAX_PORT:
        raise InputError(
            f"{address!r} is not an address: write HOST:PORT, such as nuc.local:50151, or ssh://USER@HOST for an agent "
            "that listens on loopback there"
        )
    return Target(name, address, time.time_ns())
