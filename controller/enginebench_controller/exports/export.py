"""The formats, and the file they are written to."""

import json
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from enginebench_controller.documents.profiles import profiles_document
from enginebench_controller.errors import InputError
from enginebench_controller.exports.csv_table import to_csv
from enginebench_controller.exports.layer_table import COLUMN_TYPES, layer_rows
from enginebench_controller.exports.new_file import new_file
from enginebench_controller.exports.trace import to_trace
from enginebench_controller.records import Peak, Profile
from enginebench_controller.store.parquet import write_parquet


class ExportFormat(StrEnum):
    """What a profile can be exported as."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
    TRACE = "trace"


def export_profiles(
    profiles: Sequence[Profile], peaks: Sequence[Peak], form: ExportFormat, path: Path | None, *, force: bool = False
) -> str | None:
    """Write whole profiles to `path`, or return the text where there is none; `peaks` are those of their targets.

    Raises `InputError` where the file cannot be written, is there already without `force`, or is needed: Parquet is
    no text.
    """
    if path is None and form is ExportFormat.PARQUET:
        raise InputError("Parquet is no text: name a file with --output")
    if path is None:
        return _TEXTS[form](profiles, peaks)
    with new_file(path, force=force) as partial:
        if form is ExportFormat.PARQUET:
            write_parquet(partial, COLUMN_TYPES, layer_rows(profiles, peaks))
        else:
            partial.write_text(_TEXTS[form](profiles, peaks), encoding="utf-8", newline="")
    return None


def _to_json(profiles: Sequence[Profile], peaks: Sequence[Peak]) -> str:
    return json.dumps(profiles_document(profiles, peaks), allow_nan=False) + "\n"


_TEXTS: Mapping[ExportFormat, Callable[[Sequence[Profile], Sequence[Peak]], str]] = {
    ExportFormat.JSON: _to_json,
    ExportFormat.CSV: to_csv,
    ExportFormat.TRACE: to_trace,
}
