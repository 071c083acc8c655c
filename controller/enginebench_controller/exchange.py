"""Benchmarks as one JSON file that travels: exported with every raw sample, imported without loss and at most once.

The file holds the public documents of document.py, each measurement with its `samples_ns` added. An import is checked
whole before anything is stored, and stored in one transaction.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from enginebench_controller.document import SCHEMA_VERSION, benchmark_document
from enginebench_controller.errors import InputError
from enginebench_controller.records import (
    Benchmark,
    Configuration,
    Effective,
    EngineRef,
    Failure,
    LatencySummary,
    Measurement,
    Phase,
    Status,
    TargetSnapshot,
)
from enginebench_controller.store.store import BenchmarkBundle, Store

KIND = "enginebench-export"
_INT64_MAX = 2**63 - 1
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
    export = _parse(_read(path), path)
    return store.add_bundles([_bundle(document) for document in export.benchmarks])


class _Strict(BaseModel):
    """Numbers must be numbers; fields that a later version added are passed over."""

    model_config = ConfigDict(extra="ignore", strict=False, allow_inf_nan=False)


class _Engine(_Strict):
    name: str
    version: str | None
    environment: str


class _Model(_Strict):
    name: str
    digest: str


class _Measurement(_Strict):
    id: str = Field(min_length=1)
    target: str
    engine: _Engine
    model: _Model
    configuration: Configuration
    effective: Effective
    status: Status
    failure: Failure | None
    started_at_unix_ns: int | None = Field(ge=0, le=_INT64_MAX)
    phases: tuple[Phase, ...]
    iterations: int | None = Field(ge=0, le=_INT64_MAX)
    steady_state_ns: int | None = Field(ge=0, le=_INT64_MAX)
    cpu_time_ns: int | None = Field(ge=0, le=_INT64_MAX)
    input_set_sha256: str | None
    latency: LatencySummary | None
    throughput_items_per_s: float | None
    samples_ns: list[int] | None


class _Benchmark(_Strict):
    id: str = Field(min_length=1)
    name: str
    created_at_unix_ns: int = Field(ge=0, le=_INT64_MAX)
    rerun_of: str | None
    plan: dict[str, Any]


class _Target(_Strict):
    name: str
    address: str
    seen_at_unix_ns: int = Field(ge=0, le=_INT64_MAX)
    host: dict[str, Any]
    engines: tuple[dict[str, Any], ...]


class _Document(_Strict):
    benchmark: _Benchmark
    targets: tuple[_Target, ...]
    measurements: tuple[_Measurement, ...]


class _Export(_Strict):
    benchmarks: tuple[_Document, ...]


def _exported(bundle: BenchmarkBundle) -> dict[str, Any]:
    document = benchmark_document(bundle.benchmark, bundle.measurements, bundle.snapshots)
    for described, measurement in zip(document["measurements"], bundle.measurements, strict=True):
        samples_ns = measurement.samples_ns
        described["samples_ns"] = None if samples_ns is None else samples_ns.tolist()
    return document


def _read(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except OSError as error:
        raise InputError(f"{path} could not be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text, so it is no export") from None
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON ({error}); export it again") from None


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _parse(data: Any, path: Path) -> _Export:
    if not isinstance(data, Mapping) or data.get("kind") != KIND:
        raise InputError(f"{path} is not an export; make one with `enginebench export ID --output FILE`")
    _require_known_version(data.get("schema_version"), path)
    try:
        json.dumps(data, ensure_ascii=False).encode()  # a lone surrogate is valid JSON and breaks every reader
        export = _Export.model_validate(data)
        for document in export.benchmarks:
            for measurement in document.measurements:
                _samples(measurement.samples_ns)
    except ValidationError as error:
        raise InputError(f"{path} is damaged, nothing was imported: {_reasons(error)}") from None
    except (UnicodeEncodeError, OverflowError, ValueError) as error:
        raise InputError(f"{path} is damaged, nothing was imported: {error}") from None
    return export


def _require_known_version(version: Any, path: Path) -> None:
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise InputError(f"{path} has no usable schema_version; export it again")
    if version > SCHEMA_VERSION:
        raise InputError(
            f"{path} was exported by a newer enginebench (schema {version}; this one knows {SCHEMA_VERSION}); "
            "upgrade enginebench to import it"
        )


def _reasons(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    listed = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in problems[:_MAX_REASONS]]
    more = f" and {len(problems) - _MAX_REASONS} more" if len(problems) > _MAX_REASONS else ""
    return "; ".join(listed) + more


def _bundle(document: _Document) -> BenchmarkBundle:
    heading = document.benchmark
    return BenchmarkBundle(
        Benchmark(
            id=heading.id,
            name=heading.name,
            created_at_unix_ns=heading.created_at_unix_ns,
            plan=heading.plan,
            rerun_of=heading.rerun_of,
            imported=True,
        ),
        tuple(_measurement(one, heading.id) for one in document.measurements),
        tuple(TargetSnapshot(t.name, t.address, t.seen_at_unix_ns, t.host, t.engines) for t in document.targets),
    )


def _measurement(document: _Measurement, benchmark_id: str) -> Measurement:
    return Measurement(
        id=document.id,
        benchmark_id=benchmark_id,
        target=document.target,
        engine=EngineRef(document.engine.name, document.engine.environment, document.engine.version),
        model_digest=document.model.digest,
        model_name=document.model.name,
        configuration=document.configuration,
        status=document.status,
        started_at_unix_ns=document.started_at_unix_ns,
        failure=document.failure,
        effective=document.effective,
        phases=document.phases,
        iterations=document.iterations,
        steady_state_ns=document.steady_state_ns,
        cpu_time_ns=document.cpu_time_ns,
        input_set_sha256=document.input_set_sha256,
        latency=document.latency,
        throughput_items_per_s=document.throughput_items_per_s,
        samples_ns=_samples(document.samples_ns),
    )


def _samples(samples_ns: list[int] | None) -> NDArray[np.int64] | None:
    if samples_ns is None:
        return None
    latencies_ns = np.asarray(samples_ns, dtype=np.int64)
    if latencies_ns.size and latencies_ns.min() < 0:
        raise ValueError("a latency is negative")
    return latencies_ns
