"""The answer to a person's SQL as CSV, by the rules of csv_table.py."""

import csv
import io

from enginebench_controller.exports.csv_table import cell
from enginebench_controller.store.sql_query import QueryResult


def query_csv(result: QueryResult) -> str:
    """The text: a header and the rows that there are."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([cell(column.name) for column in result.columns])
    writer.writerows([cell(value) for value in row] for row in result.rows)
    return text.getvalue()
