"""`python -m enginebench_controller.store.tables` prints docs/tables.md."""

import sys
from pathlib import Path

from enginebench_controller.store.connection import reading
from enginebench_controller.store.tables.described import page, tables

with reading(Path("no results.duckdb"), timeout_s=0) as connection:
    sys.stdout.write(page(tables(connection)))
