"""Other programs read a lake, by the lines of docs/reference/lake.md."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "lake.md"


@pytest.mark.parametrize("program", ["polars", "dask"])
def test_polars_and_dask_find_the_sums_that_we_do(own, synced, program):
    (code,) = re.findall(rf"```python\n(import {program}.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    names = {}
    exec(code.replace("/data/lake", synced.url), names)
    expected = own.query(
        "SELECT engine, sum(latency_ns) FROM block_samples JOIN measurements ON id = measurement_id "
        "GROUP BY engine ORDER BY engine"
    ).rows
    assert names["answer"] == dict(expected)
    assert expected
