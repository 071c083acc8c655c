"""What version 6 adds: who else used the machine."""

from typing import Final

SIXTH_SCHEMA: Final = ("ALTER TABLE processes ADD COLUMN bystanders JSON",)
