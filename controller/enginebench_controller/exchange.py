"""Benchmarks as one JSON file that travels: exported with every raw sample, imported without loss and at most once.

The file holds the public documents of document.py, each measurement with its blocks, `samples` and `captured_outputs`
added. An import is checked whole before anything is stored, and stored in one transaction.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from enginebench_controller.document import SCHEMA_VERSION, Document, benchmark_document
from enginebench_controller.errors import InputError
from enginebench_controller.exchange_form import ExportForm, output_data, samples_data
from enginebench_controller.exchange_form_1 import ExportForm1
from enginebench_controller.store.store import BenchmarkBundle, Store

KIND = "enginebench-export"
_MAX_REASONS = 3


def export_benchmarks(store: Store, benchmark_ids: Sequence[str]) -> str:
    """Return the text of an export of these benchmarks, raw samples included, each benchmark once.

    Raises `InputError` for an id the store does not have.
    """
    bundles = [store.bundle(benchmark_id) for benchmark_id in dict.fromkeys(benchmark_ids)]
    export = {"schema_version": SCHEMA_VERSION, "kind": KIND, "benchmarks": [_exported(one) for one in bundles]}
    return json.dumps(export, allow_nan=False)


def import_benchmarks(store: Store, path: Path) -> tuple[str, ...]:
    """Store what an export holds and return the ids of the benchmarks that brought something new.

    Ids are kept, so importing again changes nothing; new benchmarks are marked as imported. Raises `InputError` for a
    file that is missing, not an export, made by a newer enginebench or damaged; nothing is stored then.
    """
    text = _read(path)
    version = _version(_parse(text, path), path)
    try:
        export = (ExportForm1 if version == 1 else ExportForm).model_validate_json(text)
    except ValidationError as error:
        raise InputError(f"{path} is damaged, nothing was imported: {_reasons(error)}") from None
    return store.add_bundles([form.to_bundle() for form in export.benchmarks])


def _exported(bundle: BenchmarkBundle) -> Document:
    document = benchmark_document(bundle.benchmark, bundle.measurements, bundle.snapshots, with_blocks=True)
    for described, measurement in zip(document["measurements"], bundle.measurements, strict=True):
        described["samples"] = [samples_data(one) for one in bundle.samples.get(measurement.id, ())]
        described["captured_outputs"] = [output_data(one) for one in measurement.captured_outputs]
    return document


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except OSError as error:
        raise InputError(f"{path} could not be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text, so it is no export") from None


def _parse(text: str, path: Path) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON ({error}); export it again") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _version(data: Any, path: Path) -> int:
    """Return the schema version of an export; raise `InputError` for anything that is none, or too new."""
    if not isinstance(data, Mapping) or data.get("kind") != KIND:
        raise InputError(f"{path} is not an export; make one with `enginebench export ID --output FILE`")
    version = data.get("schema_version")
    if type(version) is not int or version < 1:
        raise InputError(f"{path} has no usable schema_version; export it again")
    if version > SCHEMA_VERSION:
        raise InputError(
            f"{path} was exported by a newer enginebench (schema {version}; this one knows {SCHEMA_VERSION}); "
            "upgrade enginebench to import it"
        )
    return version


def _reasons(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    listed = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in problems[:_MAX_REASONS]]
    more = f" and {len(problems) - _MAX_REASONS} more" if len(problems) > _MAX_REASONS else ""
    return "; ".join(listed) + more
