"""Boards that are not here: root file systems out of Debian's packages, whose programs QEMU translates.

A root is made once and kept. Debian's packages are unpacked, not configured: Python and sshd need no more.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from enginebench_agent.environments.installing import pack_wheel

FORMATS = Path("/proc/sys/fs/binfmt_misc")
RELEASE = "bookworm"
PACKAGES = "python3,python3-venv,python3-pip,openssh-server,libstdc++6,dash,coreutils,sed,grep"
PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
RECIPE = 2
"""A root of another recipe is made anew."""


@dataclass(frozen=True)
class Architecture:
    """Debian's word for it, `platform.machine()`'s, the tags of its wheels, and what it gets beside the base."""

    name: str
    machine: str
    tags: tuple[str, ...]
    extras: tuple[str, ...] = ()

    @property
    def wanted(self) -> tuple[str, ...]:
        """What its agent needs, and its engines."""
        return (*PROJECT["dependencies"], *self.extras)


# ONNX Runtime 1.31 and 1.32 end in SIGSEGV at import under QEMU 7.2, also without us.
ARM64 = Architecture(
    "arm64",
    "aarch64",
    ("manylinux2014", "manylinux_2_17", "manylinux_2_27", "manylinux_2_28", "manylinux_2_34"),
    (*PROJECT["optional-dependencies"]["tls"], "onnxruntime==1.23.2", "onnx", "numpy<2.4"),
)
# The index has no wheel of cffi for it, and so no TLS without a compiler; engines neither.
ARMHF = Architecture(
    "armhf", "armv7l", ("manylinux2014", "manylinux_2_17", "manylinux_2_31", "manylinux_2_35", "linux")
)


class Board:
    """A root file system with an agent in a virtual environment of its own. What runs in it sees /tmp as it is here."""

    def __init__(self, architecture: Architecture, folder: Path) -> None:
        self.architecture = architecture
        self.root = folder / architecture.name
        self.wheels = folder / f"wheels-{architecture.name}"
        self.site_packages = self.root / "opt/enginebench/lib/python3.11/site-packages"
        self.python = folder / f"python-{architecture.name}"
        """A program of this machine that is the board's Python."""
        self.wheel = self.wheels
        """This enginebench, once the board is made."""

    def make(self) -> None:
        """Make or renew it: packages, wheels, and this very enginebench as `enginebench-agent wheel` packs it."""
        stamp, recipe = self.root / "recipe", f"{RECIPE} {RELEASE} {PACKAGES} {self.architecture.wanted}"
        if not stamp.exists() or stamp.read_text() != recipe:
            shutil.rmtree(self.root, ignore_errors=True)
            self._unpack()
            self._install_what_it_needs()
            stamp.write_text(recipe)
        (self.root / "opt/wheels").mkdir(parents=True, exist_ok=True)
        self._write_python()
        self._install_enginebench()

    def command(self, *words: str) -> list[str]:
        """What runs a program in it, as the very process that is started."""
        places = {place: place for place in ("/proc", "/sys", "/dev", "/tmp")} | {str(self.wheels): "/opt/wheels"}
        binds = "; ".join(f"mount --rbind {place} {self.root}{there}" for place, there in places.items())
        script = f'{binds}; cd {self.root}; exec chroot {self.root} "$@"'
        return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script, "sh", *words]

    def run(self, *words: str, timeout: float = 600) -> str:
        """Run a program in it to its end; returns what it printed."""
        done = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=timeout, check=False)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def _unpack(self) -> None:
        make = ["mmdebstrap", "--quiet", f"--architectures={self.architecture.name}", "--variant=extract"]
        options = [f"--include={PACKAGES}", '--aptopt=APT::Sandbox::User "root"']
        command = [*make, *options, RELEASE, str(self.root), *_sources()]
        if subprocess.run(command, check=False).returncode != 0:  # a mirror that is being renewed fails now and then
            shutil.rmtree(self.root, ignore_errors=True)
            subprocess.run(command, check=True)
        for place in ("proc", "sys", "dev", "tmp", "run/sshd", "root", "opt/wheels"):
            (self.root / place).mkdir(parents=True, exist_ok=True)
        (self.root / "etc/passwd").write_text(
            "root:x:0:0:root:/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n"
        )
        (self.root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")

    def _install_what_it_needs(self) -> None:
        """By the pip of this machine, which is an order of magnitude faster; a bootstrap is by the board's own."""
        wanted = self.architecture.wanted
        self._pip("download", "--dest", str(self.wheels), *wanted)
        self.run("/usr/bin/python3", "-m", "venv", "--without-pip", "/opt/enginebench")
        self._pip(
            "install", "--no-index", "--find-links", str(self.wheels), "--target", str(self.site_packages), *wanted
        )

    def _install_enginebench(self) -> None:
        self.wheel = pack_wheel(self.wheels)
        digest = hashlib.sha256(self.wheel.read_bytes()).hexdigest()
        stamp = self.site_packages / "enginebench.sha256"
        if not stamp.exists() or stamp.read_text() != digest:
            here = ("--no-deps", "--upgrade", "--target", str(self.site_packages))
            self._pip("install", *here, str(self.wheel))
            stamp.write_text(digest)

    def _pip(self, command: str, *words: str) -> None:
        pip = [sys.executable, "-m", "pip", command, "-qq", "--disable-pip-version-check"]
        tags = [word for tag in self.architecture.tags for word in ("--platform", f"{tag}_{self.architecture.machine}")]
        foreign = ["--only-binary=:all:", "--python-version", "3.11", "--implementation", "cp", *tags]
        subprocess.run([*pip, *foreign, *words], check=True)

    def _write_python(self) -> None:
        words = " ".join(json.dumps(word).replace("$", "\\$") for word in self.command())
        self.python.write_text(f'#!/bin/sh\nexec {words} /opt/enginebench/bin/python "$@"\n')
        self.python.chmod(0o755)


def _sources() -> list[str]:
    """The mirror that this machine has Debian of, without updates; none leaves it to mmdebstrap."""
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"]
    listed = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.splitlines()
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    mirrors = (line.split()[0] for line in listed if line.split()[1:] == [RELEASE])
    return [f"deb [signed-by={keys}] {mirror} {RELEASE} main" for mirror in mirrors][:1]
