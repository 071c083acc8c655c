"""Why pip installs nothing on a board: packages have no wheel for its processor, or none for its system or Python."""

import re

_NOT_THERE = re.compile(r"No matching distribution found for ([A-Za-z0-9._-]+)")
_VERSIONS = re.compile(r"\(from versions: ([^)]*)\)")
_NOT_BUILT = re.compile(r"(?:Failed building wheel for|Failed to build) ['\"]?([A-Za-z0-9._-]+)")
_32_BITS = ("armv6l", "armv7l", "armv8l", "i686")


def lacking_wheel(output: str, machine: str, python: str = "") -> str | None:
    """A sentence with what to do, from what pip printed; None where it failed for another reason.

    `machine` is what programs there are made for, `python` its version, where that is known.
    """
    here = f"{machine} and Python {python}" if python else machine
    versions = _VERSIONS.search(output)
    if (missing := _NOT_THERE.search(output)) and (versions is None or versions[1] == "none"):
        what = f"{missing[1]} has no wheel for {here} on the package index"
    elif failed := _NOT_BUILT.search(output):
        what = f"{failed[1]} has no wheel for {here}, and it could not be compiled there"
    else:
        return None
    if machine in _32_BITS:
        return (
            f"{what}: take a system of 64 bits, which boards since the Raspberry Pi 3 can run, tell pip there of "
            "piwheels, or give it a wheel that was built elsewhere"
        )
    return f"{what}: take a newer system or Python there, or give pip a wheel that was built elsewhere"
