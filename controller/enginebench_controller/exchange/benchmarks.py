"""Benchmarks as one JSON file that travels: exported with every raw sample, imported without loss and at most once.

The file holds the public documents of documents/benchmarks.py, each measurement with its blocks, `samples` and
`captured_outputs` added. An import is checked whole before anything is stored, and stored in one transaction.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from enginebench_controller.documents.benchmarks import SCHEMA_VERSION, Document, benchmark_document
from enginebench_controller.exchange.benchmark_form import ExportForm, output_data, samples_data
from enginebench_controller.exchange.exported_file import ExportKind, read_export
from enginebench_controller.store.store import BenchmarkBundle, Store

KIND = "enginebench-export"
_EXPORT = ExportKind(KIND, "enginebench export ID --output FILE", SCHEMA_VERSION, ExportForm)


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
    export = read_export(path, _EXPORT)
    return store.add_bundles([form.to_bundle() for form in export.benchmarks])


def _exported(bundle: BenchmarkBundle) -> Document:
    document = benchmark_document(bundle.benchmark, bundle.measurements, bundle.snapshots, with_blocks=True)
    for described, measurement in zip(document["measurements"], bundle.measurements, strict=True):
        described["samples"] = [samples_data(one) for one in bundle.samples.get(measurement.id, ())]
        described["captured_outputs"] = [output_data(one) for one in measurement.captured_outputs]
    return document
