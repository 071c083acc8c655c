"""What a check of the store found as JSON-able data."""

from pathlib import Path
from typing import Any

from enginebench_controller.store.checking import StoreCheck

SCHEMA_VERSION = 1


def check_document(path: Path, found: StoreCheck) -> dict[str, Any]:
    """The document that `enginebench store check --json` prints; `rows` is null for a table that cannot be read."""
    return {
        "schema_version": SCHEMA_VERSION,
        "path": str(path),
        "tables": [{"name": name, "rows": rows} for name, rows in found.rows.items()],
        "problems": list(found.problems),
    }
