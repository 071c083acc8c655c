"""A machine made up for a test: files of /proc and /sys below a folder."""

from pathlib import Path

CPU = "sys/devices/system/cpu"


def write(root: Path, path: str, text: str | int) -> None:
    """Make a file as the kernel writes it, its last line ended."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(str(text).removesuffix("\n") + "\n")


def write_policies(root: Path, count: int = 2, governor: str = "powersave", khz: int = 2_000_000) -> None:
    """A frequency policy for each processor, linked to it as the kernel does."""
    for cpu in range(count):
        policy = f"{CPU}/cpufreq/policy{cpu}"
        write(root, f"{policy}/scaling_governor", governor)
        write(root, f"{policy}/scaling_available_governors", "performance powersave")
        write(root, f"{policy}/scaling_cur_freq", khz)
        (root / CPU / f"cpu{cpu}").mkdir(exist_ok=True)
        (root / CPU / f"cpu{cpu}" / "cpufreq").symlink_to(f"../cpufreq/policy{cpu}")


def write_stat(root: Path, user: int = 0, system: int = 0, idle: int = 1, steal: int = 0) -> None:
    """/proc/stat, in ticks of 10 ms."""
    write(root, "proc/stat", f"cpu  {user} 0 {system} {idle} 0 0 0 {steal} 0 0\ncpu0 {user} 0 0 0 0 0 0 0 0 0")


def write_pressure(root: Path, resource: str, total_us: int) -> None:
    """Pressure stall information."""
    some = f"some avg10=0.00 avg60=0.00 avg300=0.00 total={total_us}"
    write(root, f"proc/pressure/{resource}", f"{some}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=999")
