"""A real agent whose standard error is kept, to read its log."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_server import ONLY_FAKE, READY, serve_command


class LoggingAgent:
    """Its address, and what it has logged so far."""

    def __init__(self, address: str, log: Path) -> None:
        self.address = address
        self._log = log

    def text(self) -> str:
        return self._log.read_text()

    def lines(self, event: str | None = None) -> list[dict[str, Any]]:
        """The lines of `--log-format json`, those of one event where it is named."""
        lines = [json.loads(line) for line in self.text().splitlines()]
        return [line for line in lines if event in (None, line["event"])]


@contextmanager
def logging_agent(folder: Path, *arguments: str) -> Iterator[LoggingAgent]:
    """`enginebench-agent serve` with these arguments, over a data folder in `folder`."""
    data, log = folder / "data", folder / "log"
    data.mkdir()
    (data / "agent.toml").write_text(ONLY_FAKE)
    with log.open("w") as stream:
        command = serve_command(data, "--port", "0", *arguments)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stream, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        assert line.startswith(READY), log.read_text()
        yield LoggingAgent(line.removeprefix(READY), log)
    finally:
        process.terminate()
        process.wait(timeout=20)
