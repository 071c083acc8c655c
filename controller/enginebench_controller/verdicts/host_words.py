"""What a machine is, in words: its processor, cores, caches and memory, and what became another there."""

from enginebench_controller.records import Cache, CoreCluster, HostFacts


def processor_of(host: HostFacts) -> str | None:
    """The name of a machine's processor, or that it is none: "emulated aarch64"; None where it is unknown."""
    return f"emulated {host.architecture}" if host.emulation else host.cpu_model


_MEASURED_WITH = {
    "cpu_model": "its processor",
    "logical_cores": "the number of its cores",
    "kernel": "its kernel",
    "tuned": "what is tuned there",
    "agent_version": "its enginebench",
}
"""What numbers depend on, of the facts that a machine tells."""


def changes_of(before: HostFacts, now: HostFacts) -> str:
    """What is another on a machine that numbers depend on: "its kernel was 6.1 and is 6.6"; "" for nothing."""
    told = ((words, getattr(before, name), getattr(now, name)) for name, words in _MEASURED_WITH.items())
    return ", ".join(f"{words} was {_fact(old)} and is {_fact(new)}" for words, old, new in told if old != new)


def _fact(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "nothing"
    return "unknown" if value in (None, "") else str(value)


def memory_of(host: HostFacts) -> str:
    """ "23.5 GiB", or "256 MiB" of what has less than one; "" where it is unknown."""
    if host.memory_bytes is None:
        return ""
    gib = host.memory_bytes / 2**30
    return f"{gib:.1f} GiB" if gib >= 1 else f"{1024 * gib:.0f} MiB"


def caches_of(host: HostFacts) -> str:
    """ "2 × L1d 32 KiB, 2 × L2 512 KiB, L3 32 MiB", but for those of instructions; "" where they are not known."""
    return ", ".join(map(_cache, (one for one in host.caches if one.type != "instruction")))


def _cache(one: Cache) -> str:
    count = f"{one.count} × " if one.count > 1 else ""
    return f"{count}L{one.level}{'d' if one.type == 'data' else ''} {_binary(one.size_bytes)}"


def _binary(size_bytes: int) -> str:
    kib = size_bytes / 1024
    return f"{kib:g} KiB" if kib < 1024 else f"{kib / 1024:g} MiB"


def data_words(size_bytes: int | None) -> str:
    """The data that a calibration walked through: "256 KiB", "16 MiB"; "memory" where its size is not known."""
    return "memory" if size_bytes is None else _binary(size_bytes)


def kinds_of_cores(host: HostFacts) -> str:
    """ "4 big (Cortex-A76) and 4 little (Cortex-A55) cores"; "" where all are alike."""
    if not host.clusters:
        return ""
    *first, last = (f"{one.physical_cores} {one.name}{_in_brackets(one)}" for one in host.clusters)
    return f"{', '.join(first)} and {last} cores"


def _in_brackets(kind: CoreCluster) -> str:
    frequency = f"{kind.max_frequency_hz / 1e9:.1f} GHz" if kind.max_frequency_hz else ""
    what = kind.model or frequency
    return f" ({what})" if what else ""
