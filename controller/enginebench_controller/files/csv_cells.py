"""What stands in a cell of CSV, or of a table that somebody saves as CSV.

Names are other people's, and a spreadsheet takes a cell that begins with =, +, - or @ (in full width too) for a
formula. Such text gets an apostrophe in front, which spreadsheets hide; and so does what stands behind a ; within it,
at which those of many countries split. JSON and Parquet keep it as it is.
"""

import json
import re
from typing import Any

_FORMULA = re.compile(r'^(?=[\t\r\n])|(^|[;\t\r\n])(?="*[=+\-@＝＋－＠])')
"""Where a formula begins: in a cell, and behind what a spreadsheet may split it at, as many do at ;."""


def harmless(text: str) -> str:
    """Text in which a spreadsheet finds no formula: an apostrophe stands before each that would begin."""
    return _FORMULA.sub(r"\1'", text)


def cell(value: Any) -> Any:
    """A value as a cell: lists as JSON, text that would begin a formula made harmless, None as it is."""
    if value is None or isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return harmless(text)
