"""What version 5 adds: what an engine did after the timed blocks, and what a measurement is judged by."""

from typing import Final

FIFTH_SCHEMA: Final = (
    "ALTER TABLE processes ADD COLUMN afterwards JSON",
    "ALTER TABLE measurements ADD COLUMN grounds JSON",
)
