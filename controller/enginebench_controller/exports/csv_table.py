"""Layers as CSV (RFC 4180): a header, comma, quotes where needed, lists as JSON, an empty cell for what is unknown.

Names are other people's, and a spreadsheet takes a cell that begins with =, +, - or @ (in full width too) for a
formula. Such text gets an apostrophe in front, which spreadsheets hide; JSON and Parquet keep it as it is.
"""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from enginebench_controller.exports.layer_table import COLUMN_TYPES, layer_rows
from enginebench_controller.records import Peak, Profile

BEGINS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def to_csv(profiles: Sequence[Profile], peaks: Sequence[Peak] = ()) -> str:
    """The text of the table, without the raw times."""
    columns = [column for column in COLUMN_TYPES if column != "time_ns"]
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows([cell(row[column]) for column in columns] for row in layer_rows(profiles, peaks))
    return text.getvalue()


def cell(value: Any) -> Any:
    """A value as a cell: lists as JSON, text that would begin a formula made harmless, None as it is."""
    if value is None or isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"'{text}" if text.startswith(BEGINS_A_FORMULA) else text
