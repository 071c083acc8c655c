"""The audit log: who changed what and who was refused, a JSON line a call, with an older half that is replaced."""

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc

from enginebench_agent.door.permissions import Peer

MAX_FILE_BYTES = 4 * 1024 * 1024
"""A file of this size becomes the older one; so the two take no more than twice that."""
MAX_SUBJECT_CHARS = 128

_log = logging.getLogger(__name__)


class AuditLog:
    """Lines at the end of a file that only its owner reads.

    `subject` is the run id, the digest or the holder of a reservation that a call was about, `outcome` the name of its
    gRPC status. A line that cannot be written is told in the agent's own log; the call goes on.
    """

    def __init__(self, path: Path, max_file_bytes: int = MAX_FILE_BYTES) -> None:
        self._path = path
        self._max_file_bytes = max_file_bytes

    def refused(self, peer: Peer, method: str, context: Any, status: grpc.StatusCode) -> None:
        """Note a call that was not let in."""
        self._write(peer, method, context, None, status.name)

    @contextlib.contextmanager
    def recorded(self, peer: Peer, method: str, request: Any, context: Any) -> Iterator[Any]:
        """Note a call once it is over. Yields its request, or the stream of them, to be used in its place."""
        subject = _Subject()
        outcome = grpc.StatusCode.UNKNOWN  # what gRPC answers to a defect
        try:
            yield subject.of_stream(request) if hasattr(request, "__aiter__") else subject.of(request)
            outcome = grpc.StatusCode.OK
        except asyncio.CancelledError:
            outcome = grpc.StatusCode.CANCELLED
            raise
        finally:
            told = context.code()  # a number until somebody has set one
            status = told if isinstance(told, grpc.StatusCode) else outcome
            self._write(peer, method, context, subject.text, status.name)

    def _write(self, peer: Peer, method: str, context: Any, subject: str | None, outcome: str) -> None:
        line = {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "who": peer.name,
            "role": peer.role,
            "from": context.peer(),
            "method": method,
            "subject": subject,
            "outcome": outcome,
        }
        try:
            self._append(json.dumps(line) + "\n")
        except OSError as error:
            _log.error("cannot write to %s (%s): %s by %s is not recorded", self._path, error, method, peer.name)

    def _append(self, line: str) -> None:
        handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "a") as stream:
            stream.write(line)
            full = stream.tell() > self._max_file_bytes
        if full:
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))


class _Subject:
    """What a call is about, once one of its messages names it."""

    def __init__(self) -> None:
        self.text: str | None = None

    def of(self, request: Any) -> Any:
        """Look at a message, and hand it on."""
        for part in (request, getattr(request, "spec", None), getattr(request, "header", None)):
            for field in ("run_id", "sha256", "holder"):
                if self.text is None and (value := getattr(part, field, "")):
                    self.text = str(value)[:MAX_SUBJECT_CHARS]
        return request

    async def of_stream(self, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Look at each message of a stream, and hand it on."""
        async for request in requests:
            yield self.of(request)
