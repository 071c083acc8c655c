"""A machine to log in to: this one, through a real sshd on a port of its own, with a home, keys and PATH of its own."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
SSH = shutil.which("ssh")
PYTHON = Path(getattr(sys, "_base_executable", sys.executable))
PIP_VARIABLES = ("PIP_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_")
"""What pip may need there as it does here."""


class SshMachine:
    """Start it, log in with the `ssh` of its folder `bin`, stop it. `home` is what ~ is for who is logged in."""

    def __init__(
        self, folder: Path, sshd: Sequence[str] = (str(SSHD),), variables: Mapping[str, str] | None = None
    ) -> None:
        """`sshd` starts the server, on another root as well; `variables` are what its logins have for pip."""
        self.folder = folder
        self._sshd = sshd
        self._variables = variables
        self.home = folder / "home"
        self.bin = folder / "bin"
        self.programs = folder / "programs"
        for each in (self.home, self.bin, self.programs):
            each.mkdir(parents=True)
        for key in ("host_key", "user_key"):
            make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
            subprocess.run(make, check=True)
        self.port = _free_port()
        self.trust_host(folder / "host_key.pub")
        shutil.copy(folder / "user_key.pub", folder / "authorized_keys")
        self._write_configurations()
        self._start()

    @property
    def address(self) -> str:
        return f"ssh://127.0.0.1:{self.port}"

    def trust_host(self, public_key: Path) -> None:
        """Let the private known_hosts name this key, and no other, as the machine's."""
        kind, key = public_key.read_text().split()[:2]
        (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {kind} {key}\n")

    def sessions(self) -> list[int]:
        """The processes of who is logged in."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in children.read_text().split()]

    def stop(self) -> None:
        for session in self.sessions():
            with contextlib.suppress(ProcessLookupError):  # it was just leaving
                os.kill(session, signal.SIGTERM)
        self.process.terminate()
        self.process.wait(timeout=20)
        for program in self._programs():
            with contextlib.suppress(ProcessLookupError):
                os.kill(program, signal.SIGKILL)

    def _programs(self) -> list[int]:
        """What was started out of the home there: an agent goes on after its session, on a port that others want."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                if os.fsencode(self.home) in entry.read_bytes():
                    found.append(int(entry.parent.name))
        return found

    def _write_configurations(self) -> None:
        path = f"{self.programs}:{PYTHON.parent}:/usr/local/bin:/usr/bin:/bin"
        own = {"PIP_CACHE_DIR": str(Path.home() / ".cache" / "pip")}
        own |= {name: value for name, value in os.environ.items() if name.upper().startswith(PIP_VARIABLES)}
        own = dict(own if self._variables is None else self._variables)
        own |= {"HOME": str(self.home), "PATH": path}
        variables = " ".join(f'"{name}={value}"' for name, value in own.items())
        (self.folder / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host_key\n"
            f"AuthorizedKeysFile {self.folder}/authorized_keys\nStrictModes no\nUsePAM no\nPidFile none\n"
            f"PasswordAuthentication no\nPermitRootLogin yes\nSetEnv {variables}\n"
        )
        (self.folder / "ssh_config").write_text(
            f"IdentityFile {self.folder}/user_key\nIdentitiesOnly yes\nIdentityAgent none\n"
            f"UserKnownHostsFile {self.folder}/known_hosts\nGlobalKnownHostsFile none\n"
        )
        # ssh reads the configuration of the account's home, whatever $HOME says: so one is named.
        command = self.bin / "ssh"
        command.write_text(f'#!/bin/sh\nexec {SSH} -F {self.folder}/ssh_config "$@"\n')
        command.chmod(0o755)

    def _start(self) -> None:
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where Debian's sshd locks up its unprivileged half
        command = [*self._sshd, "-D", "-e", "-f", str(self.folder / "sshd_config")]
        self.process = subprocess.Popen(command, stderr=(self.folder / "sshd.log").open("w"))
        deadline = time.monotonic() + 20
        while not _answers(self.port):
            assert self.process.poll() is None, (self.folder / "sshd.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)


def another_build(wheel: Path, folder: Path) -> Path:
    """The same version of enginebench, in a wheel of other bytes."""
    copy = folder / wheel.name
    copy.write_bytes(wheel.read_bytes())
    with zipfile.ZipFile(copy, "a") as archive:
        archive.comment = b"another build"
    return copy


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False
