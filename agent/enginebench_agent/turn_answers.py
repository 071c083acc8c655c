"""What an agent answers, one byte each through a pipe, to a child that waits for its turn."""

from typing import Final

GO: Final = b"g"
"""Run one block."""

STOP: Final = b"s"
"""There are no more turns."""
