"""Commands on another machine, over the system's `ssh`, each to its end."""

import shlex
import subprocess
from pathlib import Path

from enginebench_controller.errors import EnginebenchError
from enginebench_controller.running.ssh import SshError, SshPlace, failed_itself, last_words

_BEGIN = "enginebench begins"
"""Said before each command, because a login may print things of its own, and what a command prints is read."""


class RemoteError(EnginebenchError):
    """A command on the other machine failed; the text has its own last words."""


class Remote:
    """A machine to run commands on. Every method raises `SshError` when ssh does not get there."""

    def __init__(self, place: SshPlace) -> None:
        self.place = place

    def run(self, *words: str, to: str) -> str:
        """Run a command and return what it printed. `to` says what for. Raises `RemoteError` when it fails."""
        return self._checked(self._ended(shlex.join(words)), to)

    def succeeds(self, *words: str) -> bool:
        """Whether a command ends with exit code 0."""
        return self._ended(shlex.join(words)).returncode == 0

    def read(self, path: str) -> str | None:
        """The text of a file there; None where there is none that can be read."""
        done = self._ended(f"cat {shlex.quote(path)}")
        return done.stdout if done.returncode == 0 else None

    def write(self, path: str, content: bytes, sha256: str) -> None:
        """Put a file there, whole or not at all, and its folder. Raises `RemoteError`."""
        folder, part, whole = (shlex.quote(each) for each in (str(Path(path).parent), path + ".part", path))
        # A connection that breaks looks like the end of the file to `cat`: only the digest tells.
        check = f"printf '%s  %s\\n' {sha256} {part} | sha256sum -c - >/dev/null"
        line = f"mkdir -p {folder} && cat > {part} && {check} && mv {part} {whole}"
        self._checked(self._ended(line, content), f"write {path}")

    def _ended(self, line: str, content: bytes = b"") -> "subprocess.CompletedProcess[str]":
        try:
            words = self.place.command(f"echo {shlex.quote(_BEGIN)}; {line}")
            done = subprocess.run(words, input=content, capture_output=True, check=False)
        except OSError as error:
            raise SshError(self.place, f"ssh cannot be started: {error.strerror}") from error
        out, err = (stream.decode(errors="replace") for stream in (done.stdout, done.stderr))
        if failed_itself(done.returncode):
            raise SshError(self.place, last_words(err))
        return subprocess.CompletedProcess(done.args, done.returncode, out.partition(f"{_BEGIN}\n")[2], err)

    def _checked(self, done: "subprocess.CompletedProcess[str]", to: str) -> str:
        if done.returncode != 0:
            said = last_words(done.stderr) if done.stderr.strip() else last_words(done.stdout)
            raise RemoteError(f"could not {to} on {self.place.destination}: it says {said!r}")
        return done.stdout
