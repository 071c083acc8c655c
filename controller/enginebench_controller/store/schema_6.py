"""What version 6 adds: who else used the machine, and when processes and agents stood still."""

from typing import Final

SIXTH_SCHEMA: Final = (
    "ALTER TABLE blocks ADD COLUMN paused_ns BIGINT",
    "ALTER TABLE processes ADD COLUMN clock_jump_ns BIGINT",
    "ALTER TABLE processes ADD COLUMN agent_paused_ns BIGINT",
    "ALTER TABLE processes ADD COLUMN bystanders JSON",
    "ALTER TABLE blocks ADD COLUMN reference_product_ns BIGINT",
    "ALTER TABLE blocks ADD COLUMN reference_stream_ns BIGINT",
)
