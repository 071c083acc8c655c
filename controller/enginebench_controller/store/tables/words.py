"""How the words about a table are written down: a line a column, its name first."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class TableWords:
    """What a row of a table is, and what its columns mean, by name."""

    name: str
    row: str
    columns: Mapping[str, str]


def table(name: str, row: str, columns: str) -> TableWords:
    """The words about one table; each line of `columns` is "name: meaning"."""
    lines = [line.strip() for line in columns.splitlines() if line.strip()]
    return TableWords(name, row, dict(line.split(": ", 1) for line in lines))


SUBJECT = """
    id: what names it
    target: name of the target it ran on; `local` is this machine
    engine: name of the engine
    engine_version: version of the engine; NULL where no engine told one
    environment: the Python environment the engine lives in
    model_digest: the model version: models.digest
    model_name: name of the model then
    device: device as asked for: CPU, GPU.0, AUTO, …
    batch: items in one inference
    cores: physical cores as asked for
    status: ok, inconclusive (numbers, but less sure than was asked for), failed or cancelled
    failure_kind: why there are no numbers: crashed, compile_failed, out_of_memory, timed_out, …
    configuration: everything that was asked for
    effective: what the engine really used, each value with how it is known, and what was prepared in the model
    failure: the failure with its sentence, signal and the end of what the engine printed
"""
"""The columns that `measurements` and `profiles` share."""
