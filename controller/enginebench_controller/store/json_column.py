"""JSON columns: data as the text that DuckDB keeps."""

import json
from typing import Any

from enginebench_controller.records.json_form import finite


def to_json(data: Any) -> str:
    """Render JSON-able data for a JSON column; what is not finite becomes null."""
    return json.dumps(finite(data), allow_nan=False)
