"""Log lines as data, in the form of the agent's, so that those of a run can be read together: fixed events and fields.

Contents of files, options of engines and whatever opens a door are never logged.
"""

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

_ROOM = "enginebench_controller"


class LogFormat(StrEnum):
    """How log lines look."""

    TEXT = "text"
    JSON = "json"


def told(**fields: object) -> dict[str, Any]:
    """What to hand to a logger as `extra`, for one line to say these fields."""
    return {"fields": fields}


def set_up(log_format: LogFormat) -> None:
    """Log to standard error what happens; without this, commands only complain."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if log_format is LogFormat.JSON else _TextFormatter())
    logger = logging.getLogger(_ROOM)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


def agent_options() -> tuple[str, ...]:
    """The options that make an agent log as this process does."""
    logger = logging.getLogger(_ROOM)
    if not logger.isEnabledFor(logging.INFO):
        return ()
    as_json = any(isinstance(handler.formatter, _JsonFormatter) for handler in logger.handlers)
    return ("--verbose", "--log-format", LogFormat.JSON if as_json else LogFormat.TEXT)


class _TextFormatter(logging.Formatter):
    """One line a record, its fields behind the event."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s%(shown_fields)s")

    def format(self, record: logging.LogRecord) -> str:
        fields: Mapping[str, object] = getattr(record, "fields", {})
        record.shown_fields = "".join(f" {name}={_shown(value)}" for name, value in fields.items())
        return super().format(record)


class _JsonFormatter(logging.Formatter):
    """One JSON object a line, in ASCII, so that no name from elsewhere can break the line or colour a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        return json.dumps(line, default=str)


def _shown(value: object) -> str:
    """Plain where that is clear, else quoted: names come from others, and may hold blanks, breaks and worse."""
    text = str(value)
    is_plain = text.isprintable() and text.isascii() and not set(text) & set(' "=')
    return text if is_plain and text else json.dumps(text)
