"""What processor programs run on, as the kernel tells it: its name, its instruction sets, and whether it is a real one.

`root` is the file system's root, so that tests can bring their own; `machine` is what programs are made for, as
`platform.machine()` has it. What a translated program reads in /proc/cpuinfo is of the host, and is never believed.
"""

import platform
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path("/")

_FAMILIES = {
    **dict.fromkeys(("x86_64", "amd64", "i386", "i486", "i586", "i686"), "x86"),
    **dict.fromkeys(("aarch64", "arm64", "armv6l", "armv7l", "armv8l", "arm"), "ARM"),
}

# Linux, arch/arm64/include/uapi/asm/hwcap.h: the bits of AT_HWCAP, and behind 64 those of AT_HWCAP2.
_ARM64_BITS = {
    **{1: "asimd", 9: "fphp", 10: "asimdhp", 20: "asimddp", 22: "sve"},
    **{65: "sve2", 73: "svei8mm", 75: "svebf16", 77: "i8mm", 78: "bf16", 87: "sme", 101: "sme2"},
}
# Linux, arch/arm/include/uapi/asm/hwcap.h.
_ARM32_BITS = {12: "neon", 16: "vfpv4", 22: "fphp", 23: "asimdhp", 24: "asimddp", 26: "bf16", 27: "i8mm"}
_AT_HWCAP, _AT_HWCAP2 = 16, 26

# The numbers that processors bear in MIDR_EL1 (implementer, part), as util-linux' lscpu lists them.
_ARM_CORES: Mapping[int, Mapping[int, str]] = {
    0x41: {
        **{0xB76: "ARM1176", 0xC07: "Cortex-A7", 0xC08: "Cortex-A8", 0xC09: "Cortex-A9", 0xC0F: "Cortex-A15"},
        **{0xD01: "Cortex-A32", 0xD03: "Cortex-A53", 0xD04: "Cortex-A35", 0xD05: "Cortex-A55", 0xD07: "Cortex-A57"},
        **{0xD08: "Cortex-A72", 0xD09: "Cortex-A73", 0xD0A: "Cortex-A75", 0xD0B: "Cortex-A76", 0xD0D: "Cortex-A77"},
        **{0xD0E: "Cortex-A76AE", 0xD41: "Cortex-A78", 0xD42: "Cortex-A78AE", 0xD46: "Cortex-A510"},
        **{0xD47: "Cortex-A710", 0xD4B: "Cortex-A78C", 0xD4D: "Cortex-A715", 0xD80: "Cortex-A520"},
        **{0xD81: "Cortex-A720", 0xD87: "Cortex-A725", 0xD44: "Cortex-X1", 0xD48: "Cortex-X2", 0xD4E: "Cortex-X3"},
        **{0xD82: "Cortex-X4", 0xD85: "Cortex-X925", 0xD0C: "Neoverse-N1", 0xD49: "Neoverse-N2"},
        **{0xD8E: "Neoverse-N3", 0xD40: "Neoverse-V1", 0xD4F: "Neoverse-V2", 0xD84: "Neoverse-V3"},
        **{0xD4A: "Neoverse-E1"},
    },
    0x42: {0x516: "ThunderX2"},
    0x43: {0x0AF: "ThunderX2", 0x0B8: "ThunderX3"},
    0x46: {0x001: "A64FX"},
    0x48: {0xD01: "TaiShan-v110", 0xD02: "TaiShan-v120"},
    0x4E: {0x003: "Denver 2", 0x004: "Carmel"},
    0x51: {0x001: "Oryon", 0x802: "Kryo 3XX Gold", 0x803: "Kryo 3XX Silver", 0x804: "Kryo 4XX Gold"},
    0xC0: {0xAC3: "Ampere-1", 0xAC4: "Ampere-1a"},
}

# What a chip has for its longest tasks, and what it has beside others to save power: these execute in order.
_LARGEST = ("Cortex-X", "Denver")
_IN_ORDER = frozenset(
    {"Cortex-A7", "Cortex-A32", "Cortex-A35", "Cortex-A53", "Cortex-A55", "Cortex-A510", "Cortex-A520"}
)

# From the widest down, as kernels spell them on x86-64 and on ARM.
_WIDEST = ("amx_tile", "avx512f", "avx2", "avx", "sse4_2", "sve2", "sve", "asimd", "neon")

_MACHINES = ("QEMU", "KVM", "Amazon EC2", "Google", "Microsoft", "VMware", "innotek", "Xen", "Parallels", "Apple")
"""Who sells machines that are programs, as their firmware has it."""


def family(machine: str) -> str:
    """What different words for machines have in common: "x86", "ARM", or the word itself."""
    return _FAMILIES.get(machine, machine)


def emulation(root: Path = ROOT, machine: str = "") -> str | None:
    """How instructions reach a processor that does not know them, in words; None where it runs them itself.

    A program of one family of processors on a kernel of another is translated (QEMU in binfmt_misc, Box64, FEX). A
    whole machine is where the processor says so, or where QEMU has no clock of KVM to offer.
    """
    machine = machine or platform.machine()
    kernel = _kernel_machine(root)
    if kernel and family(kernel) != family(machine):
        return f"programs for {machine} are translated on {_article(kernel)}"
    cpuinfo = _text(root / "proc/cpuinfo")
    if "QEMU TCG" in cpuinfo or re.search(r"^CPU implementer\s*: 0x00$", cpuinfo, re.MULTILINE):
        return "the whole machine is emulated (QEMU TCG)"
    clocks = _text(root / "sys/devices/system/clocksource/clocksource0/available_clocksource")
    if family(machine) == "x86" and "QEMU" in _vendor(root) and clocks and "kvm-clock" not in clocks:
        return "the whole machine is emulated (QEMU without KVM)"
    return None


def virtualization(root: Path = ROOT) -> str | None:
    """Whose virtual machine this is, or "a virtual machine"; None where nothing says that it is one."""
    vendor = next((one for one in _MACHINES if one in _vendor(root)), "")
    if vendor == "Microsoft" and "Virtual" not in _text(root / "sys/class/dmi/id/product_name"):
        vendor = ""  # a Surface
    if vendor in ("Google", "Apple") and "hypervisor" not in _flags(root):
        vendor = ""  # a Chromebook, a Mac
    if vendor:
        return f"a virtual machine ({vendor})"
    tree = _text(root / "proc/device-tree/compatible")
    return "a virtual machine" if "hypervisor" in _flags(root) or "linux,dummy-virt" in tree else None


def processor_name(root: Path = ROOT, machine: str = "") -> str | None:
    """What its owner knows a processor by: "AMD EPYC 7763", "Raspberry Pi 5 Model B Rev 1.0, 4 × Cortex-A76".

    None where the kernel does not tell, and for a translated program, which sees a processor that it does not run on.
    """
    machine = machine or platform.machine()
    if not _is_ours(root, machine):
        return None
    if family(machine) != "ARM":
        return _field(root, "model name") or None
    board = _text(root / "proc/device-tree/model") or _field(root, "Model")
    cores = Counter(arm_cores(root).values())
    kinds = ", ".join(f"{count} × {name}" for name, count in cores.most_common())
    return ", ".join(filter(None, (board, kinds))) or _field(root, "Hardware") or None


def arm_cores(root: Path = ROOT) -> dict[int, str]:
    """The name of every ARM core by the number of its logical processor; of those that nobody knows, its numbers."""
    found, numbers = {}, {"CPU implementer": 0, "CPU part": 0}
    cpu = -1
    for line in _text(root / "proc/cpuinfo").splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        if key == "processor" and value.isdecimal():
            cpu = int(value)
        elif key in numbers:
            numbers[key] = int(value, 16)
            if key == "CPU part" and cpu >= 0:
                implementer, part = numbers.values()
                found[cpu] = _ARM_CORES.get(implementer, {}).get(part, f"ARM core {implementer:#x}/{part:#x}")
    return found


def rank(core: str) -> int:
    """The place of an ARM core, by its name, among those of one chip at one frequency: 0 for the fastest, 2 at most."""
    return 0 if core.startswith(_LARGEST) else 2 if core in _IN_ORDER or core.endswith("Silver") else 1


def instruction_sets(root: Path = ROOT, machine: str = "") -> frozenset[str]:
    """What the processor that programs see can do, in the kernel's words ("avx2", "asimddp"); empty where untold.

    On ARM this comes from the auxiliary vector, which is right for a translated program, too.
    """
    machine = machine or platform.machine()
    if family(machine) == "ARM" and (found := frozenset(_of_auxiliary_vector(root, machine))):
        return found
    return _flags(root) if _is_ours(root, machine) else frozenset()


def widest_instruction_set(root: Path = ROOT, machine: str = "") -> str | None:
    """The widest of them, such as "avx2" or "asimd"; None where the kernel does not tell."""
    present = instruction_sets(root, machine)
    return next((name for name in _WIDEST if name in present), None)


def _of_auxiliary_vector(root: Path, machine: str) -> Iterator[str]:
    is_64 = machine in ("aarch64", "arm64")
    pair = struct.Struct("=QQ" if is_64 else "=II")
    try:
        content = (root / "proc/self/auxv").read_bytes()
    except OSError:
        return
    pairs = dict(pair.iter_unpack(content[: len(content) // pair.size * pair.size]))
    bits = pairs.get(_AT_HWCAP, 0) | pairs.get(_AT_HWCAP2, 0) << 64
    yield from (name for bit, name in (_ARM64_BITS if is_64 else _ARM32_BITS).items() if bits >> bit & 1)


def _kernel_machine(root: Path) -> str:
    """What the kernel itself is made for; from Linux 6.1 on it says so, before that its /proc/cpuinfo does."""
    if told := _text(root / "proc/sys/kernel/arch"):
        return told
    cpuinfo = _text(root / "proc/cpuinfo")
    if re.search(r"^vendor_id\s*:", cpuinfo, re.MULTILINE):
        return "x86_64"
    return "aarch64" if re.search(r"^CPU implementer\s*:", cpuinfo, re.MULTILINE) else ""


def _is_ours(root: Path, machine: str) -> bool:
    """Whether /proc/cpuinfo is of a processor that runs programs of this machine itself."""
    kernel = _kernel_machine(root)
    return not kernel or family(kernel) == family(machine)


def _article(kernel: str) -> str:
    return f"an {kernel} processor" if kernel[0] in "aeioux" else f"a {kernel} processor"


def _vendor(root: Path) -> str:
    names = ("sys_vendor", "product_name", "bios_vendor")
    return " ".join(_text(root / "sys/class/dmi/id" / name) for name in names)


def _flags(root: Path) -> frozenset[str]:
    return frozenset((_field(root, "flags") or _field(root, "Features")).split())


def _field(root: Path, key: str) -> str:
    found = re.search(rf"^{key}\s*:[ \t]*(\S.*)$", _text(root / "proc/cpuinfo"), re.MULTILINE)
    return found[1].strip() if found else ""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0\n ")
    except OSError:
        return ""
