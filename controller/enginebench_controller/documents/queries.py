"""The answer to a person's SQL as JSON-able data."""

from typing import Any

from enginebench_controller.store.sql_query import QueryResult

SCHEMA_VERSION = 1


def query_document(result: QueryResult) -> dict[str, Any]:
    """The document that `enginebench query --json` prints; rows are lists, because columns may share a name."""
    return {
        "schema_version": SCHEMA_VERSION,
        "columns": [{"name": column.name, "type": column.type} for column in result.columns],
        "rows": [list(row) for row in result.rows],
        "more_rows": result.more_rows,
        "remarks": list(result.remarks),
    }
