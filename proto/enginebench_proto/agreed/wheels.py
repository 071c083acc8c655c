"""Why nothing is installed on a machine: another system, or packages without a wheel for its processor or Python."""

import re
import sysconfig

_NOT_THERE = re.compile(r"No matching distribution found for ([A-Za-z0-9._-]+)")
_VERSIONS = re.compile(r"\(from versions: ([^)]*)\)")
_NOT_BUILT = re.compile(r"(?:Failed building wheel for|Failed to build) ['\"]?([A-Za-z0-9._-]+)")
_32_BITS = ("armv6l", "armv7l", "armv8l", "i686")
_AGENTS_ON = "Linux"
_PEOPLE_SAY = {"Darwin": "macOS"}


def why_no_agent_on(system: str) -> str:
    """Why no agent runs on a system, which is named as `platform.system()` names it; "" for one on which they do."""
    if system == _AGENTS_ON:
        return ""
    return f"agents run on {_AGENTS_ON}, and this is {_PEOPLE_SAY.get(system, system)}"


def built_for() -> str:
    """What this Python was built for, as compilers say it: "aarch64-alpine-linux-musl"; "" where it does not know."""
    return str(sysconfig.get_config_var("HOST_GNU_TYPE") or "")


def lacking_wheel(output: str, machine: str, python: str = "", host: str = "") -> str | None:
    """A sentence with what to do, from what pip printed; None where it failed for another reason.

    `machine` is what programs there are made for, `python` its version, where that is known, and `host` what that one
    was built for.
    """
    on_musl = "musl" in host
    libc = " with musl" if on_musl else ""
    here = f"{machine}{libc} and Python {python}" if python else f"{machine}{libc}"
    versions = _VERSIONS.search(output)
    if (missing := _NOT_THERE.search(output)) and (versions is None or versions[1] == "none"):
        what = f"{missing[1]} has no wheel for {here} on the package index"
    elif failed := _NOT_BUILT.search(output):
        what = f"{failed[1]} has no wheel for {here}, and it could not be compiled there"
    else:
        return None
    if on_musl:
        return (
            f"{what}: take a system of 64 bits with glibc, such as Debian or Ubuntu, as most engines are built for no "
            "other, or give pip a wheel that was built elsewhere"
        )
    if machine in _32_BITS:
        return (
            f"{what}: take a system of 64 bits, which boards since the Raspberry Pi 3 can run, tell pip there of "
            "piwheels, or give it a wheel that was built elsewhere"
        )
    return f"{what}: take a newer system or Python there, or give pip a wheel that was built elsewhere"
