"""`python -m benchmarks.big_store FOLDER`: a home with 1,000 benchmarks, 10 million samples and 1 million layer rows.

A few benchmarks and profiles are stored as any other; the rest are copies of them, made in SQL in the store room's own
transactions, with other ids, dates, targets, models and speeds. Nothing in it was measured.
"""

import argparse
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import made_up
from benchmarks.made_up import BEGUN_NS, ENGINES, TARGET, Cell
from benchmarks.profiling import analysed, fused_layers, layers_of_nodes, long_model, recorded
from enginebench_controller.home import Home
from enginebench_controller.records import EngineRef, Hint, Load, ModelVersion, Profile, Target
from enginebench_controller.store.connection import transaction

BENCHMARKS = 1_000
SAMPLES = 10_000_000
LAYER_ROWS = 1_000_000

TYPICAL, LARGE, LADDER = "benchmark000", "benchmark200", "ladder000000"
"""The ids of the benchmarks that are copied, or stand for themselves: 10 cells, 200 cells, and a ladder."""
PROFILES = {"onnxruntime": "profile0nodes", "openvino": "profile0fused"}
"""The ids of the profiles that are copied, by engine: 3,000 layers, and 1,500 that the engine fused."""

TARGETS, MODELS, VERSIONS = 5, 8, 4
_AT_ONCE = 50
_TIMEOUT_S = 60.0
_TYPICAL_CELLS = [
    *(Cell(engine, batch, cores) for engine in ENGINES for batch, cores in ((1, 1), (1, 2), (2, 2), (4, 2))),
    Cell("openvino", 8),
    Cell("onnxruntime", 8, fails=True),
]
_LARGE_CELLS = [Cell(engine, 2**power, cores) for engine, power, cores in product(ENGINES, range(10), range(1, 11))]
_RUNGS = (
    ("PyTorch", Cell("onnxruntime")),
    ("OpenVINO", Cell("openvino")),
    ("Batch 4", Cell("openvino", 4)),
    ("Asynchronous", Cell("openvino", load=Load.ASYNC)),
    ("THROUGHPUT", Cell("openvino", load=Load.ASYNC, hint=Hint.THROUGHPUT)),
    ("GPU", None),
    ("AUTO", Cell("openvino", load=Load.ASYNC, hint=Hint.THROUGHPUT, device="AUTO")),
)


def make(home: Home, *, benchmarks: int = BENCHMARKS, samples: int = SAMPLES, layer_rows: int = LAYER_ROWS) -> None:
    """Fill a home that is new with at least this much."""
    models = _models(home)
    profiles = _profiles(home, models[0])
    measured = sum(not cell.fails for cell in _TYPICAL_CELLS)
    _store_originals(home, models, profiles, samples_each=-(-samples // (benchmarks * measured)))
    layers = sum(len(profile.layers) for profile in profiles)
    _copy(home.store.path, models, _OF_BENCHMARKS, (TYPICAL,), benchmarks - 1)
    _copy(home.store.path, models, _OF_PROFILES, tuple(PROFILES.values()), -(-layer_rows // layers))


def _models(home: Home) -> list[ModelVersion]:
    """The one version with files that there is, and others of which only the store knows."""
    with TemporaryDirectory() as folder:
        first = home.library.add(long_model(Path(folder) / "long.onnx"))
    others = [
        replace(first, digest=f"{number:064x}", name=f"long-{number}", created_at_unix_ns=BEGUN_NS + number)
        for number in range(1, MODELS)
    ]
    return [first, *others]


def _profiles(home: Home, model: ModelVersion) -> list[Profile]:
    """A profile of 3,000 layers that are nodes, and one of 1,500 that were fused, both led back to the model."""
    layers = {"onnxruntime": layers_of_nodes(), "openvino": fused_layers()}
    return [
        replace(
            analysed(home.library, model, recorded(list(layers[engine])), identity),
            name="long",
            target=TARGET,
            engine=EngineRef(engine, "default", ENGINES[engine]),
            created_at_unix_ns=BEGUN_NS,
            host=made_up.snapshot(TARGET).host,
        )
        for engine, identity in PROFILES.items()
    ]


def _store_originals(home: Home, models: list[ModelVersion], profiles: list[Profile], samples_each: int) -> None:
    store, digest = home.store, models[0].digest
    for model in models:
        store.save_model(model)
    for number in range(TARGETS):
        name = TARGET.replace("0", str(number))
        store.add_target(Target(name, f"{name}:50051", BEGUN_NS))
        store.save_snapshot(made_up.snapshot(name))
    store.add_peaks(made_up.peaks())
    rungs, cells = [_rung(*rung, digest) for rung in _RUNGS], [cell for _, cell in _RUNGS if cell]
    store.add_bundles(
        [
            made_up.bundle(TYPICAL, "typical", _TYPICAL_CELLS, digest, samples_each),
            made_up.bundle(LARGE, "200 cells", _LARGE_CELLS, digest, samples_each),
            made_up.bundle(LADDER, "ladder of long", cells, digest, samples_each, ladder="throughput", rungs=rungs),
        ]
    )
    for profile in profiles:
        store.add_profile(profile)


def _rung(title: str, cell: Cell | None, digest: str) -> dict[str, Any]:
    """A rung of a plan, as the ladder's own planning writes it."""
    common = {"name": title.lower(), "title": title}
    if cell is None:
        return {**common, "unavailable": "the target has no such device"}
    fields = {"models": [digest], "engines": [cell.engine], "devices": [cell.device], "batch": [cell.batch]}
    fields |= {"cores": [cell.cores], "load": [cell.load], "hint": [cell.hint], "options": {}}
    return {**common, "fields": fields}


# Copies keep the order of time, as a store that grew has it.
_OF_BENCHMARKS = (
    """
    INSERT INTO benchmarks SELECT benchmarks.* REPLACE (
        left(md5(id || '/' || copy), 12) AS id, name || ' ' || copy AS name,
        created_at_unix_ns + copy * 3_600_000_000_000 AS created_at_unix_ns)
    FROM benchmarks, copied WHERE id IN (SELECT unnest($ids)) ORDER BY copy""",
    """
    INSERT INTO benchmark_snapshots SELECT benchmark_snapshots.* REPLACE (
        left(md5(benchmark_id || '/' || copy), 12) AS benchmark_id, copied.target AS target)
    FROM benchmark_snapshots, copied WHERE benchmark_id IN (SELECT unnest($ids)) ORDER BY copy""",
    """
    INSERT INTO measurements SELECT measurements.* REPLACE (md5(id || '/' || copy) AS id,
        left(md5(benchmark_id || '/' || copy), 12) AS benchmark_id,
        copied.target AS target, digest AS model_digest, model AS model_name, version AS engine_version,
        started_at_unix_ns + copy * 3_600_000_000_000 AS started_at_unix_ns,
        mean_ns * factor AS mean_ns, median_ns * factor AS median_ns,
        median_low_ns * factor AS median_low_ns, median_high_ns * factor AS median_high_ns,
        throughput_items_per_s / factor AS throughput_items_per_s,
        throughput_low_items_per_s / factor AS throughput_low_items_per_s,
        throughput_high_items_per_s / factor AS throughput_high_items_per_s)
    FROM measurements, copied WHERE benchmark_id IN (SELECT unnest($ids)) ORDER BY copy, position""",
    *(
        f"""
    INSERT INTO {part} SELECT {part}.* REPLACE (md5(measurement_id || '/' || copy) AS measurement_id)
    FROM {part}, copied WHERE measurement_id IN (
        SELECT id FROM measurements WHERE benchmark_id IN (SELECT unnest($ids)))
    ORDER BY copy, measurement_id, {order}"""  # noqa: S608  # names of ours
        for part, order in (
            ("processes", "process"),
            ("blocks", "process, block"),
            ("block_samples", "process, block"),
            ("captured_outputs", "captured_outputs.position"),
        )
    ),
)
_OF_PROFILES = (
    """
    INSERT INTO profiles SELECT profiles.* REPLACE (md5(id || '/' || copy) AS id, name || ' ' || copy AS name,
        created_at_unix_ns + copy * 3_600_000_000_000 AS created_at_unix_ns,
        copied.target AS target, digest AS model_digest, model AS model_name, version AS engine_version)
    FROM profiles, copied WHERE id IN (SELECT unnest($ids)) ORDER BY copy""",
    *(
        f"""
    INSERT INTO {part} SELECT {part}.* REPLACE (md5(profile_id || '/' || copy) AS profile_id)
    FROM {part}, copied WHERE profile_id IN (SELECT unnest($ids)) ORDER BY copy, profile_id, {order}"""  # noqa: S608
        for part, order in (("layers", "layers.position"), ("profile_nodes", "node"))
    ),
)
_COPIED = f"""
    CREATE TEMP TABLE copied AS
    SELECT copy, ('{TARGET[:-1]}' || copy % {TARGETS}) AS target, '1.' || copy * {VERSIONS} // $copies AS version,
        $digests[1 + copy % {MODELS}] AS digest, $models[1 + copy % {MODELS}] AS model,
        0.8 + 0.4 * (hash(copy) % 1000) / 1000 AS factor
    FROM range($first, $end) AS copies(copy)"""  # noqa: S608


def _copy(path: Path, models: list[ModelVersion], statements: Iterable[str], ids: Sequence[str], copies: int) -> None:
    """Add so many copies of the benchmarks, or profiles, of these ids."""
    about_models = {"digests": [one.digest for one in models], "models": [one.name for one in models]}
    for first in range(1, copies + 1, _AT_ONCE):
        end = min(first + _AT_ONCE, copies + 1)
        with transaction(path, _TIMEOUT_S) as connection:
            connection.execute(_COPIED, {**about_models, "first": first, "end": end, "copies": copies + 1})
            for statement in statements:
                connection.execute(statement, {"ids": list(ids)})


def main() -> None:
    """Make the home that the command line names, and say what is in it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.big_store", description=__doc__)
    parser.add_argument("folder", type=Path, help="the new home, for ENGINEBENCH_HOME")
    home = Home(parser.parse_args().folder)
    begin = time.perf_counter()
    make(home)
    rows = ", ".join(f"{table.rows:,} {table.name}" for table in home.store.tables() if table.rows)
    size_mb = home.store.path.stat().st_size / 1e6
    print(f"{home.store.path}: {size_mb:,.0f} MB in {time.perf_counter() - begin:.0f} s; {rows}")


if __name__ == "__main__":
    main()
