"""Log lines as data, in one form on both ends, so that those of a run can be read together; as text or as JSON.

A line is a fixed event, such as "run ended", and fields. Fields of the surrounding work – the run, the caller – are
bound once and stand in every line of that work. Contents, metadata, options and whatever opens a door are never logged.
"""

import json
import logging
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

_bound: ContextVar[Mapping[str, object]] = ContextVar("bound", default=MappingProxyType({}))


class LogFormat(StrEnum):
    """How log lines look."""

    TEXT = "text"
    JSON = "json"


def bind(**fields: object) -> None:
    """Put these fields into every later line of this task, and of the tasks it starts from now on."""
    _bound.set({**_bound.get(), **fields})


def told(**fields: object) -> dict[str, Any]:
    """What to hand to a logger as `extra`, for one line to say these fields."""
    return {"fields": fields}


def to_standard_error(log_format: LogFormat) -> logging.Handler:
    """What writes lines to standard error, with the fields that are bound."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_with_bound)
    handler.setFormatter(_JsonFormatter() if log_format is LogFormat.JSON else _TextFormatter())
    return handler


def format_of(handler: logging.Handler) -> LogFormat:
    """How the lines of such a handler look."""
    return LogFormat.JSON if isinstance(handler.formatter, _JsonFormatter) else LogFormat.TEXT


def _with_bound(record: logging.LogRecord) -> bool:
    # On the handler, where the line's own task still runs, and for lines of other libraries too.
    record.fields = {**_bound.get(), **getattr(record, "fields", {})}
    return True


class _TextFormatter(logging.Formatter):
    """One line a record, its fields behind the event; a traceback follows on lines of its own."""

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
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _shown(value: object) -> str:
    """Plain where that is clear, else quoted: names come from others, and may hold blanks, breaks and worse."""
    text = str(value)
    is_plain = text.isprintable() and text.isascii() and not set(text) & set(' "=')
    return text if is_plain and text else json.dumps(text)
